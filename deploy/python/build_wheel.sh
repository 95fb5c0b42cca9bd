#!/usr/bin/env bash
# Builds the binary wheel: the Python client, hearthd and hearth, for Linux on
# x86-64. The last line of standard output is its path.
#
#   deploy/python/build_wheel.sh OUT     the folder that gets the wheel
#
# The wheel has Debian's libraries but those of glibc and GCC, which every Linux
# has, and takes LibTorch from the package torch. Where there is no CUDA toolkit it
# has no plug-in for GPUs. PYTHON (default /usr/bin/python3) has pip. HEARTH_BUILT=yes
# takes the binaries in bazel-bin as they are.

source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

(($# == 1)) || die "usage: deploy/python/build_wheel.sh OUT"
out=$(realpath -m "$1")
cd "$HEARTH_ROOT"
install_packages "${BUILD_PACKAGES[@]}" "${PACKAGE_PACKAGES[@]}" >&2
[[ ${HEARTH_BUILT:-} == yes ]] ||
  build_aloud //server:hearthd //client:hearth //server/pieces:hearth-piece \
    //kernels/cuda:libhearth_cuda.so >&2

# Newest symbols of glibc and libstdc++ that the files may need, as the platform's
# name promises.
glibc=2.34
libstdcxx=3.4.29
platform=manylinux_${glibc/./_}_x86_64
torch=$(sed -n 's/.*"torch==\([^"]*\)".*/\1/p' third_party/torch/repository.bzl)
grep -qF "\"torch==$torch\"" client/python/pyproject.toml ||
  die "client/python/pyproject.toml: daemon is not torch $torch, which hearthd is built with"
staging=$(mktemp -d --tmpdir hearth-wheel.XXXXXX)
trap 'rm -rf "$staging"' EXIT
root=$staging/root
libraries=$root/lib/hearth-gnn

# place MODE SOURCE DESTINATION
place() { install -D -m "$1" "$2" "$root/$3"; }

# Paths of the shared libraries that a program loads and that not every Linux
# has. LibTorch and its own libraries lie in Bazel's _solib.
libraries_of() {
  local common='ld-linux-x86-64|libc|libm|libdl|librt|libutil|libpthread|libgcc_s|libstdc\+\+'
  env -u LD_LIBRARY_PATH ldd "$1" | sed -n 's|.* => \(/[^ ]*\) .*|\1|p' |
    grep -vE "/_solib|/($common)\.so\.[0-9]+$"
}

place_binaries() {
  place 755 bazel-bin/client/hearth bin/hearth
  place 755 bazel-bin/server/pieces/hearth-piece bin/hearth-piece
  place 755 bazel-bin/server/hearthd lib/hearth-gnn/hearthd
  local plugin=bazel-bin/kernels/cuda/libhearth_cuda.so
  if [[ -f $plugin ]]; then
    place 644 "$plugin" lib/hearth-gnn/libhearth_cuda.so
  else
    say "there is no CUDA toolkit: the wheel gets no plug-in for GPUs" >&2
  fi
  sed "s/@TORCH_VERSION@/$torch/" deploy/python/hearthd >"$staging/hearthd"
  place 755 "$staging/hearthd" bin/hearthd
  local library
  while read -r library; do
    place 644 "$library" "lib/hearth-gnn/${library##*/}"
    place_license "$library"
  done < <({
    libraries_of bazel-bin/server/hearthd
    libraries_of bazel-bin/client/hearth
    libraries_of bazel-bin/server/pieces/hearth-piece
  } | sort -u)
}

# The license of the Debian package that a library is of.
place_license() {
  local package
  package=$(dpkg-query -S "$(realpath "$1")" 2>/dev/null ||
    dpkg-query -S "$(realpath "$1" | sed 's|^/usr||')")
  package=${package%%:*}
  place 644 "/usr/share/doc/$package/copyright" "share/doc/hearth/licenses/$package"
}

# Libraries are found from where the program is, ahead of LD_LIBRARY_PATH, which
# may have others of the same names. libtorch_cpu.so finds CUDA's runtime itself,
# in builds of torch that have any.
link_binaries() {
  patchelf --force-rpath --set-rpath "\$ORIGIN/../lib/hearth-gnn" \
    "$root/bin/hearth" "$root/bin/hearth-piece"
  patchelf --force-rpath --set-rpath "\$ORIGIN" \
    --remove-needed libcudart.so.13 --remove-needed libcupti.so.13 "$libraries/hearthd"
  strip --strip-unneeded "$root"/bin/hearth{,-piece} "$libraries"/*
}

# newest PREFIX FILE: the newest version of symbols that a file needs, empty for none.
newest() { objdump -T "$2" | grep -oP "\($1_\K[0-9.]+" | sort -V | tail -n 1 || true; }

# Ends the build if a file needs more than the platform's name promises.
check_platform() {
  local file needed promised
  for file in "$root"/bin/hearth{,-piece} "$libraries"/*; do
    for promised in "GLIBC $glibc" "GLIBCXX $libstdcxx"; do
      needed=$(newest "${promised% *}" "$file")
      [[ $(printf '%s\n' "$needed" "${promised#* }" | sort -V | tail -n 1) == "${promised#* }" ]] ||
        die "${file##*/} needs ${promised% *}_$needed, and the wheel promises ${promised/ /_}"
    done
  done
}

place_binaries
link_binaries
check_platform
deploy/guide/build_guide.sh "$root/share/doc/hearth/guide" >&2
place 644 deploy/debian/copyright share/doc/hearth/copyright
find "$root" -type d -exec chmod 755 {} +
mkdir -p "$out" "$staging/wheel"
HEARTH_WHEEL_FILES=$root HEARTH_WHEEL_PLATFORM=$platform "${PYTHON:-/usr/bin/python3}" -m pip wheel \
  --quiet --no-deps --wheel-dir "$staging/wheel" ./client/python >&2
mv "$staging"/wheel/*.whl "$out"
printf '%s\n' "$out"/hearth_gnn-*"$platform.whl"
