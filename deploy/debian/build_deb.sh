#!/usr/bin/env bash
# Builds the Debian package of the daemon and the command line for this machine's
# architecture, on Debian 12, and prints its path.
#
#   deploy/debian/build_deb.sh [FOLDER]   where the package goes; default bazel-bin
#
# HEARTH_DEB_REVISION (default 1) is the part of the version after the hyphen.
# Files in the package have the time of the last commit.

source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

folder=$(realpath -m "${1:-$HEARTH_ROOT/bazel-bin}")
cd "$HEARTH_ROOT"
install_packages "${BUILD_PACKAGES[@]}" "${PACKAGE_PACKAGES[@]}" >&2
build_aloud //server:hearthd //client:hearth //server/pieces:hearth-piece \
  //server:write_man_page //client/cli:write_man_pages >&2

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
version=$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' engine/base/version.h)
[[ -n $version ]] || die "engine/base/version.h: no version"
version+=-${HEARTH_DEB_REVISION:-1}
architecture=$(dpkg --print-architecture)
staging=$(mktemp -d --tmpdir hearth-deb.XXXXXX)
trap 'rm -rf "$staging"' EXIT
root=$staging/root

# place MODE SOURCE DESTINATION
place() { install -D -m "$1" "$2" "$root/$3"; }

place_binaries() {
  local library
  place 755 bazel-bin/server/hearthd usr/bin/hearthd
  place 755 bazel-bin/client/hearth usr/bin/hearth
  place 755 bazel-bin/server/pieces/hearth-piece usr/bin/hearth-piece
  # LibTorch and what it alone needs, of the very files that the build links.
  while read -r library; do
    place 644 "$library" "usr/lib/hearth/${library##*/}"
  done < <(env -u LD_LIBRARY_PATH ldd bazel-bin/server/hearthd | sed -n 's|.* => \(/.*/_solib[^ ]*\) .*|\1|p')
  patchelf --set-rpath "\$ORIGIN/../lib/hearth" "$root/usr/bin/hearthd"
  strip --strip-unneeded "$root"/usr/bin/*
}

place_files() {
  place 644 deploy/systemd/hearthd.service lib/systemd/system/hearthd.service
  place 644 deploy/systemd/hearth.sysusers usr/lib/sysusers.d/hearth.conf
  place 644 deploy/systemd/hearth.tmpfiles usr/lib/tmpfiles.d/hearth.conf
  place 644 deploy/systemd/hearthd.yaml etc/hearth/hearthd.yaml
  place 644 deploy/grafana/hearth.json usr/share/hearth/grafana/hearth.json
  local file
  for file in scrape.yml recording.yml alerts.yml RUNBOOK.md; do
    place 644 "deploy/prometheus/$file" "usr/share/hearth/prometheus/$file"
  done
  place 644 README.md usr/share/doc/hearth/README.md
  mkdir -p "$root/usr/share/doc/hearth/guide"
  deploy/guide/build_guide.sh "$root/usr/share/doc/hearth/guide" >&2
  find "$root/usr/share/doc/hearth/guide" -type f -exec chmod 644 {} +
  place 644 deploy/debian/copyright usr/share/doc/hearth/copyright
}

# Manual pages come from the programs themselves.
place_manuals() {
  local page
  mkdir -p "$staging/written"
  bazel-bin/client/cli/write_man_pages "$staging/written"
  bazel-bin/server/write_man_page >"$staging/written/hearthd.8"
  for page in "$staging"/written/*; do
    gzip -9n "$page"
    place 644 "$page.gz" "usr/share/man/man${page##*.}/${page##*/}.gz"
  done
  bazel-bin/client/hearth completion bash >"$staging/hearth.bash"
  place 644 "$staging/hearth.bash" usr/share/bash-completion/completions/hearth
  bazel-bin/client/hearth completion zsh >"$staging/hearth.zsh"
  place 644 "$staging/hearth.zsh" usr/share/zsh/vendor-completions/_hearth
}

# The Debian packages with the libraries that are linked, as dpkg knows them.
dependencies() {
  mkdir -p "$staging/debian"
  printf 'Source: hearth\n\nPackage: hearth\nArchitecture: any\n' \
    >"$staging/debian/control"
  (cd "$staging" && dpkg-shlibdeps -O -l"$root/usr/lib/hearth" \
    --ignore-missing-info "$root"/usr/bin/* "$root"/usr/lib/hearth/*) |
    sed -n 's/^shlibs:Depends=//p'
}

write_control() {
  local needed
  needed=$(dependencies)
  [[ $needed == *libgrpc* ]] || die "dpkg-shlibdeps found too little: $needed"
  mkdir -p "$root/DEBIAN"
  cat >"$root/DEBIAN/control" <<EOF
Package: hearth
Version: $version
Architecture: $architecture
Maintainer: Hearth <hearth@localhost>
Section: science
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $needed, systemd | systemd-sysusers, systemd | systemd-tmpfiles
Suggests: prometheus
Description: Training daemon for graph neural networks with features on disk
 hearthd trains graph neural networks whose node features stay on an NVMe disk;
 hearth submits jobs to it, watches them and fetches the models. With a systemd
 unit, and rules and a dashboard for Prometheus and Grafana.
EOF
  printf '/etc/hearth/hearthd.yaml\n' >"$root/DEBIAN/conffiles"
  for script in postinst prerm postrm; do
    install -m 755 "deploy/debian/$script" "$root/DEBIAN/$script"
  done
  (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' |
    sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
}

place_binaries
place_files
place_manuals
write_control
find "$root" -type d -exec chmod 755 {} +
package=$folder/hearth_${version}_$architecture.deb
mkdir -p "$folder"
dpkg-deb --root-owner-group -Zzstd -z9 --build "$root" "$package" >&2
printf '%s\n' "$package"
