#!/usr/bin/env bash
# Builds the site of the users' guide (client/guide) into a new or empty folder.
#
#   deploy/guide/build_guide.sh OUT
#
# The site is read from files or from any web server, and loads nothing from
# other hosts. The same tree gives the same bytes.

source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

[[ $# == 1 ]] || die "usage: deploy/guide/build_guide.sh OUT"
out=$(realpath -m "$1")
[[ ! -e $out || (-d $out && -z $(ls -A "$out")) ]] ||
  die "$out: is there, and is no empty folder"
command -v mkdocs >/dev/null || install_packages mkdocs >&2

cd "$HEARTH_ROOT"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
mkdocs build --quiet --strict --config-file client/mkdocs.yml --site-dir "$out"
rm "$out"/sitemap.xml*  # It needs the address of a web server.
