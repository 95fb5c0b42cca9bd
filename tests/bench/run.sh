#!/usr/bin/env bash
# Measures every strategy on this machine's disk; see README.md.
#
#   tests/bench/run.sh [--quick] [OPTIONS]     --help lists them
#   tests/bench/run.sh --regret [OPTIONS]      the regret of --strategy auto
#   tests/bench/run.sh --machines [OPTIONS]    daemons that train together; as root
#
# HEARTHD and HEARTH name binaries to measure instead of this clone's.

source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/setup.sh"

install_packages "${BENCH_PACKAGES[@]}"
bench=$HEARTH_ROOT/tests/bench/hearth_bench.py
if [[ -z ${HEARTHD:-} || -z ${HEARTH:-} ]]; then
  install_packages "${BUILD_PACKAGES[@]}"
  say "building: about $(build_minutes) minutes on $(nproc) cores, with nothing built yet"
  build_aloud //server:hearthd //client:hearth //tests/bench:hearth_bench
  export HEARTHD=$HEARTH_ROOT/bazel-bin/server/hearthd
  export HEARTH=$HEARTH_ROOT/bazel-bin/client/hearth
  bench=$HEARTH_ROOT/bazel-bin/tests/bench/hearth_bench
fi
if [[ ${1:-} == --regret ]]; then
  shift
  bench=$HEARTH_ROOT/tests/bench/regret.py
fi
if [[ ${1:-} == --machines ]]; then
  shift
  bench=$HEARTH_ROOT/tests/bench/cluster_bench.py
fi
exec "$bench" "$@"
