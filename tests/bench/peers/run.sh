#!/usr/bin/env bash
# Runs PyG and DGL on the graph of a run of tests/bench/run.sh; no part of the
# tests. It installs them from PyPI, each in an environment of its own:
#
#   pyg  torch 2.11 and PyG 2.8. Its NeighborLoader needs pyg-lib, which has no
#        wheels on PyPI, or torch-sparse, which has only its source there (an
#        hour's compilation on a small machine). So PyG's NodeLoader, of which
#        NeighborLoader is a kind, runs with the same sampling in numpy.
#   dgl  DGL 2.1.0, the last with wheels for Linux; it wants Python up to 3.12,
#        torch 2.2.1 and torchdata 0.7.1, and has memory-mapped features only:
#        no feature store of its own for disks.
#
#   tests/bench/peers/run.sh --like HEARTH_BENCH.json [--peers pyg,dgl]
#     [--repeats N] [--workers N] [--json FILE]

source "$(dirname "${BASH_SOURCE[0]}")/../../../deploy/setup.sh"

environments=$HEARTH_CACHE/peers
python=/usr/bin/python3

# environment NAME: makes one, unless it was completed before. Called in a
# condition, where errors do not end the shell: each step hands on its own.
environment() {
  local name=$1
  local bin=$environments/$name/bin
  if [[ -f $environments/$name/complete ]]; then return; fi
  say "installing $name in $environments/$name"
  rm -rf "${environments:?}/$name" &&
    mkdir -p "$environments" &&
    "$python" -m venv "$environments/$name" &&
    "install_$name" "$bin" &&
    touch "$environments/$name/complete"
}

install_pyg() {
  local bin=$1
  "$bin/pip" install --quiet --no-cache-dir torch==2.11.0 \
    torch_geometric==2.8.1 numpy==2.4.6 scipy==1.17.1 &&
    "$bin/python" -c 'import torch_geometric.loader'
}

install_dgl() {
  local bin=$1
  "$bin/pip" install --quiet --no-cache-dir dgl==2.1.0 torch==2.2.1 \
    torchdata==0.7.1 'numpy<2' pydantic pyyaml pandas setuptools &&
    "$bin/python" -c 'import dgl.graphbolt'
}

peers=
want=pyg,dgl
for ((i = 1; i <= $#; i++)); do
  case ${!i} in
    -h | --help)
      exec "$python" "$HEARTH_ROOT/tests/bench/peers/peers_bench.py" --help
      ;;
    --peers=*) want=${!i#*=} ;;
    --peers)
      next=$((i + 1))
      want=${!next:-}
      ;;
  esac
done
install_packages "${BENCH_PACKAGES[@]}" python3-venv
for name in ${want//,/ }; do
  declare -F "install_$name" >/dev/null || die "no peer $name; there are pyg, dgl"
  if environment "$name"; then
    peers+=${peers:+,}$name
  else
    printf 'left out: %s could not be installed\n' "$name"
  fi
done
[[ -n $peers ]] || die "none of $want could be installed"
exec "$python" "$HEARTH_ROOT/tests/bench/peers/peers_bench.py" \
  --environments "$environments" "$@" --peers "$peers"
