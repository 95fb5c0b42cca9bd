#!/usr/bin/env bash
# Runs PyG, DGL, GraphBolt and models of PyG on Hearth's batches on the graph of
# runs of tests/bench/run.sh; no part of the tests. Each has an environment of its own below $HEARTH_CACHE/peers:
#
#   pyg        torch 2.11 and PyG 2.8, from PyPI, made by this script. PyG's
#              NeighborLoader needs pyg-lib, which has no wheels on PyPI, or
#              torch-sparse, which has only its source there (an hour's
#              compilation on a small machine). Where the environment has
#              pyg-lib, its sampler runs; else PyG's NodeLoader, of which
#              NeighborLoader is a kind, with the same sampling in numpy.
#   dgl        DGL 2.1.0, the last with wheels for Linux, made by this script; it
#              wants Python up to 3.12, torch 2.2.1 and torchdata 0.7.1, and has
#              memory-mapped features only: no feature store of its own for disks.
#   hearth     this tree's hearth.torch, with PyG from PyPI, made by this script:
#              PyG's layers on batches of a daemon ($HEARTHD).
#   graphbolt  GraphBolt as DGL's newest source has it, with its store of features
#              on disk, and PyG. PyPI has no such thing, so this script does not
#              make it: whoever has one puts it, or a link, in that place.
#
#   tests/bench/peers/run.sh --like HEARTH_BENCH.json [--peers pyg,dgl,graphbolt,hearth]
#   tests/bench/peers/run.sh --turns N [...] -- OPTIONS OF tests/bench/run.sh
#   tests/bench/peers/run.sh --machines [OPTIONS]   daemons that train together, and
#                                     PyG with DDP in their place; as root
#   tests/bench/peers/run.sh --help

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

install_hearth() {
  local bin=$1
  install_pyg "$bin" &&
    "$bin/pip" install --quiet --no-cache-dir grpcio==1.85.1 grpcio-tools==1.76.0
}

install_dgl() {
  local bin=$1
  "$bin/pip" install --quiet --no-cache-dir dgl==2.1.0 torch==2.2.1 \
    torchdata==0.7.1 'numpy<2' pydantic pyyaml pandas setuptools &&
    "$bin/python" -c 'import dgl.graphbolt'
}

# check_graphbolt: whether somebody has put one in its place; says what is missing.
check_graphbolt() {
  local python=$environments/graphbolt/bin/python
  if [[ ! -x $python ]]; then
    printf 'there is no %s, with PyG and GraphBolt of the newest source\n' "$python"
    return 1
  fi
  "$python" -c 'import torch_geometric; from dgl.graphbolt import DiskBasedFeature'
}

# provide NAME: whether the peer can run.
provide() {
  case $1 in
    pyg | dgl | hearth) environment "$1" ;;
    graphbolt) check_graphbolt ;;
    *) die "no peer $1; there are pyg, dgl, graphbolt, hearth" ;;
  esac
}

if [[ ${1:-} == --machines ]]; then
  install_packages "${BENCH_PACKAGES[@]}" python3-venv
  environment pyg || die "PyG cannot be installed"
  exec "$HEARTH_ROOT/tests/bench/run.sh" "$@" --pyg "$environments/pyg/bin/python"
fi
peers=
want=pyg,dgl
for ((i = 1; i <= $#; i++)); do
  case ${!i} in
    --) break ;;
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
  if provide "$name"; then
    peers+=${peers:+,}$name
  else
    printf 'left out: %s\n' "$name"
  fi
done
[[ -n $peers ]] || die "none of $want can run"
ours=()
while (($# > 0)) && [[ $1 != -- ]]; do
  ours+=("$1")
  shift
done
# The last --peers counts.
exec "$python" "$HEARTH_ROOT/tests/bench/peers/peers_bench.py" \
  --environments "$environments" "${ours[@]}" --peers "$peers" "$@"
