# Functions that the project's scripts share: source it, do not run it.
#
# Packages are installed only where they are missing, as root or by sudo.
# HEARTH_CACHE (default ~/.cache/hearth) holds what outlives a clone: LibTorch,
# the Bazel disk cache and the Python environment of the tests.

set -euo pipefail

HEARTH_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export HEARTH_CACHE=${HEARTH_CACHE:-$HOME/.cache/hearth}

BUILD_PACKAGES=(
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto
  bazel-skylib ca-certificates g++ libabsl-dev libcli11-dev
  libgrpc++-dev libhwy-dev libprotobuf-dev libspdlog-dev libsqlite3-dev libssl-dev
  libsystemd-dev liburing-dev libyaml-cpp-dev nlohmann-json3-dev
  prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc python3
  python3-pip zlib1g-dev
)
DATA_PACKAGES=(python3-numpy wordnet-base)
TEST_PACKAGES=(
  clang-14 clang-format-14 curl fio git lld libbenchmark-dev libclang-rt-14-dev
  iproute2 libgmock-dev libgtest-dev man-db prometheus python3-venv systemd zsh
)
BENCH_PACKAGES=(fio python3)
PACKAGE_PACKAGES=(binutils dpkg-dev patchelf)

say() { printf '\n==> %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null |
      grep -qx installed || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    say "all Debian packages are there"
    return
  fi
  say "installing Debian packages: ${missing[*]}"
  local root=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || die "run as root, or install sudo first"
    root=(sudo)
  fi
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null </dev/null
}

# Bazel with a disk cache outside the clone, so that another clone builds fast.
hearth_bazel() {
  local command=$1
  shift
  (cd "$HEARTH_ROOT" &&
    bazel "$command" --disk_cache="$HEARTH_CACHE/bazel" "$@")
}
