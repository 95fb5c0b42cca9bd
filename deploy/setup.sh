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
  libsystemd-dev liburing-dev libyaml-cpp-dev libzstd-dev nlohmann-json3-dev
  prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc python3
  python3-pip zlib1g-dev
)
DATA_PACKAGES=(python3-numpy wordnet-base)
TEST_PACKAGES=(
  clang-14 clang-format-14 curl fio git lld libbenchmark-dev libclang-rt-14-dev
  iproute2 libgmock-dev libgtest-dev man-db prometheus python3-venv systemd zsh
)
BENCH_PACKAGES=(fio python3)
PACKAGE_PACKAGES=(binutils dpkg-dev mkdocs patchelf)

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

# The major version of the NVIDIA driver that runs; empty without one.
# NVIDIA_VERSION_FILE names another file than the driver's own.
nvidia_driver() {
  local file=${NVIDIA_VERSION_FILE:-/proc/driver/nvidia/version}
  [[ -r $file ]] || return 0
  grep -m 1 -oP '^NVRM version:.*?\s\K[0-9]+(?=\.[0-9])' "$file" || true
}

# Prepares what hearthd needs to train on a GPU, where there is one: LibTorch's
# part for it (2.6 GB, once per machine) and the plug-in. Both are found by
# the variables that this exports.
prepare_gpu() {
  local driver least=580
  driver=$(nvidia_driver)
  if [[ -z $driver ]]; then
    say "there is no NVIDIA driver: nothing for GPUs is installed"
  elif ((driver < least)); then
    say "the NVIDIA driver $driver is older than $least: nothing for GPUs is installed"
  elif [[ ! -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
    say "there is no CUDA toolkit at ${CUDA_HOME:-/usr/local/cuda} (CUDA_HOME), which builds the plug-in: nothing for GPUs is installed"
  else
    say "NVIDIA driver $driver: installing LibTorch's part for GPUs, building the plug-in"
    local libraries
    libraries=$(/usr/bin/python3 -B \
      "$HEARTH_ROOT/third_party/torch/unpack_gpu_libraries.py")
    export HEARTH_TORCH_CUDA=$libraries/torch/lib/libtorch_cuda.so
    hearth_bazel build //kernels/cuda:libhearth_cuda.so
    export HEARTH_CUDA_PLUGIN=$HEARTH_ROOT/bazel-bin/kernels/cuda/libhearth_cuda.so
  fi
}

# Bazel with a disk cache outside the clone, so that another clone builds fast.
hearth_bazel() {
  local command=$1
  shift
  (cd "$HEARTH_ROOT" &&
    bazel "$command" --disk_cache="$HEARTH_CACHE/bazel" "$@")
}

# About how many minutes it takes to build hearthd and hearth on this machine
# with nothing built: two cores took 6.5.
build_minutes() { echo $((12 / $(nproc) + 1)); }

# hearth_bazel build of targets, which tells how far it is: on a terminal as Bazel
# does, elsewhere by a line every 30 s.
build_aloud() {
  if [[ -t 2 ]]; then
    hearth_bazel build --show_progress "$@"
  else
    # First: Bazel runs one command at a time.
    local files
    files=$(count_files "$@")
    hearth_bazel build --show_progress --show_progress_rate_limit=30 \
      --curses=no --color=no "$@" 2>&1 | progress_lines "$files"
  fi
}

# The number of files that a build of targets compiles.
count_files() {
  hearth_bazel aquery --include_commandline=false "deps(set($*))" 2>/dev/null |
    grep -c 'Mnemonic: CppCompile' || true
}

# progress_lines FILES: shortens Bazel's lines of progress; everything else that
# matters passes. Bazel itself knows all steps only towards the end; they are
# little more than one a file.
progress_lines() {
  local line passed all start=$SECONDS
  local noise='^(INFO: (Analyzed|Found|Elapsed|Build|Invocation|[0-9])|Loading|Analyzing|Starting local)'
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9,]+)\ /\ ([0-9,]+)\] ]]; then
      passed=$((SECONDS - start))
      all=${BASH_REMATCH[2]//,/}
      ((all >= $1)) || all=$1
      printf '    %d of %d steps done after %d:%02d minutes\n' "${BASH_REMATCH[1]//,/}" \
        "$all" $((passed / 60)) $((passed % 60))
    elif [[ ! $line =~ $noise ]]; then
      printf '%s\n' "$line"
    fi
  done
}
