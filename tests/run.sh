#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests.
#
#   tests/run.sh              tier 1: all but what takes long
#   tests/run.sh --full       lists the parts of tier 2
#   tests/run.sh --full PART  runs one of them
#
# The end is a table of what passed, failed and was skipped, by kind; the last
# line adds it up: "N passed, N failed, N skipped".

source "$(dirname "${BASH_SOURCE[0]}")/../deploy/setup.sh"

list_parts() {
  cat <<'EOF'
Parts of tier 2; tests/run.sh --full PART runs one, in less than an hour:

  asan       the unit tests of engine/ and kernels/ under ASan and UBSan
  asanfront  those of server/, client/, proto/ and tests/
  tsan       all unit tests that start threads, under TSan
  kills      500 times kill -9 at any moment of any job, and of the start; of
             feeds, 20 times the script and 20 times the daemon
  machines   100 times kill -9 of any of three daemons that train one job
  power      100 power cuts at any moment; needs root and loop devices
  soak       2,000 small jobs, 10,000 batches of a feed: memory and descriptors
             stay what they are
  imports    kill -9 at any moment of imports
  sizes      4 GiB of features, 500 million edges; needs 40 GiB of disk
  accuracy   every model on WordNet against PyG, three seeds each
  search     ASHA over learning rates on WordNet, beside a full grid
  history    partition order and histories against exact training, 5 or 20 seeds
  fuzz       each fuzzer for two minutes
  damage     2,400 flipped bits in datasets, by strategy
  faults     every fault at every call of the file system and of SQLite's, from
             start to export
  mutants    breaks promises on purpose; tests must notice each
  manifests  the manifests for Kubernetes against its schema
  page       the page of the metrics port in a real browser
  package    the Debian package, its life in a bare Debian 12; needs root
  wheel      the binary wheel, from nothing to a model in bare Debians; needs root
  floods     60 s of each flood, 10,000 watchers, 100,000 queued jobs
  alerts     every alert of deploy/prometheus fires and clears; needs root
  gpu        the plug-in, its speeds and whole jobs on this machine's GPU
  python     the Python client with Optuna, Ray and pandas as published
  trackers   jobs and sweeps in MLflow, Weights & Biases and TensorBoard
  documents  every command of the READMEs and the guide that can be run, from the
             quick start on, and the Python client installed with downloads
EOF
}

part=
case $#:${1:-} in
  0:) ;;
  1:--full)
    list_parts
    exit
    ;;
  2:--full)
    part=$2
    [[ $part =~ ^[a-z]+$ && $(list_parts) == *"  $part  "* ]] ||
      die "no part $part: see tests/run.sh --full"
    ;;
  *) die "usage: tests/run.sh [--full [PART]]" ;;
esac

cd "$HEARTH_ROOT"
python=
# The published Planetoid files; tests that need them say so where they are not.
planetoid=$HEARTH_ROOT/../shared/data/planetoid
if [[ -d $planetoid ]]; then
  export HEARTH_PLANETOID_RAW=${HEARTH_PLANETOID_RAW:-$planetoid}
fi
results=$(mktemp -d --tmpdir hearth-tests.XXXXXX)
trap 'rm -rf "$results"' EXIT
steps=$results/steps
number=0

# attempt COMMAND...: sets `status`. The command runs in a subshell that ends at
# its first error, which a command in a condition would not.
attempt() {
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
}

# require NAME COMMAND...: without it no further test is worth running.
require() {
  say "$1"
  attempt "${@:2}"
  ((status == 0)) || die "$1: failed with status $status; no further test runs"
}

# step KIND NAME SUFFIX COMMAND...: notes how the command ended. It finds in
# `file` where its results belong; an empty SUFFIX means that it has none.
step() {
  local kind=$1 name=$2 suffix=$3
  say "$name"
  number=$((number + 1))
  file=${suffix:+$results/$number.$suffix}
  local start=$SECONDS
  attempt "${@:4}"
  ((status == 0)) || printf 'FAILED: %s\n' "$name"
  printf '%s\t%s\t%s\t%s\t%s\n' "$kind" "$name" "$status" \
    "$((SECONDS - start))" "$file" >>"$steps"
}

check() { step "checks" "$1" "" "${@:2}"; }

# bazel_tests KIND ARGS...
bazel_tests() { step "$1" "$1" json run_bazel "${@:2}"; }
run_bazel() {
  hearth_bazel test --keep_going --test_summary=short \
    --build_event_json_file="$file" "$@"
}

# pytests KIND NAME ARGS...
pytests() { step "$1" "$2" xml run_pytest "${@:3}"; }
run_pytest() {
  "$python" -m pytest -q -p no:cacheprovider --junitxml="$file" "$@"
}

# left_out KIND TAG REASON PATTERN...: the targets that TAG keeps out of KIND.
left_out() {
  step "$1" "targets with the tag $2" skips list_tagged "${@:2}"
}
list_tagged() {
  bazel query --noshow_progress "attr(tags, '\\b$1\\b', tests(set(${*:3})))" |
    sed "s/\$/\t$2/" >"$file"
}

format_check() {
  git ls-files '*.h' '*.cc' '*.cu' |
    xargs -P "$(nproc)" -n 50 clang-format-14 --dry-run -Werror
}

include_check() {
  bazel query --output=xml --noshow_progress \
    'kind("cc_(library|binary|test)", //...)' |
    tests/structure/check_includes.py
}

# The areas that tier 1 runs under sanitizers too: memory by hand, and what is
# shared with clients, bytes of others, threads, what the network reaches.
SANITIZED=(
  //engine/base/... //engine/cache/... //engine/cuda/... //engine/feed/...
  //engine/ingest/parse/... //engine/io/... //engine/pipeline/...
  //engine/store/... //kernels/... //server/front/...
)

# asan_tests PATTERN...
asan_tests() {
  bazel_tests "targets under ASan and UBSan" --config=asan -- "$@"
  left_out "targets under ASan and UBSan" no-asan "LibTorch is not instrumented" "$@"
}

# What the fuzzer of feeds links takes minutes to build under ASan: it is run by
# the part "fuzz" alone.
quick_fuzzers() {
  local names
  mapfile -t names < <(basename -s _fuzzer.cc -a tests/fuzz/*_fuzzer.cc | grep -vx feed)
  tests/fuzz/run.sh 5 "${names[@]}"
}

# tsan_tests PATTERN...: those of them that start threads, or link what does: no
# other can race.
tsan_flags=()
tsan_tests() {
  check "finding the tests that start threads" list_threaded_tests "$@"
  bazel_tests "targets with threads under TSan" --config=tsan "${tsan_flags[@]}" \
    --target_pattern_file="$results/threaded"
  left_out "targets with threads under TSan" no-tsan "LibTorch is not instrumented" "$@"
}
list_threaded_tests() {
  local sources
  sources=$(git grep -lE 'std::(j?thread|async)\b|grpc::ServerBuilder' -- '*.h' '*.cc')
  bazel query --noshow_progress \
    "tests(rdeps(//..., set(${sources//$'\n'/ })) intersect set($*))" \
    >"$results/threaded"
}

# use_python NAME REQUIREMENTS: `python` is that of a virtual environment with
# these packages.
use_python() {
  require "making the Python environment $1" make_venv "$@"
  python=$HEARTH_CACHE/$1/bin/python
}

# make_venv NAME REQUIREMENTS: it has its name only once it is whole, and is made
# anew for other requirements, by one process at a time.
make_venv() {
  local wanted lock venv=$HEARTH_CACHE/$1 making=$HEARTH_CACHE/$1.making
  wanted=$(sha256sum <"$2")
  mkdir -p "$HEARTH_CACHE"
  exec {lock}>"$venv.lock"
  flock "$lock"
  if [[ -f $venv/made-from && $wanted == "$(<"$venv/made-from")" ]]; then
    return
  fi
  rm -rf "$making"
  /usr/bin/python3 -m venv "$making"
  "$making/bin/python" -m pip install --quiet --disable-pip-version-check \
    --no-cache-dir --requirement "$2"
  printf '%s\n' "$wanted" >"$making/made-from"
  rm -rf "$venv"
  mv "$making" "$venv"
}

# The package as it is installed, since the tree has no modules of the API.
type_check() {
  "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps \
    --no-build-isolation --target "$results/client" ./client/python
  (cd "$results/client" && "$python" -m mypy --cache-dir "$results/mypy" \
    --config-file "$HEARTH_ROOT/client/python/pyproject.toml")
}

build_binaries() {
  build_aloud //server:hearthd //client:hearth //server/pieces:hearth-piece \
    //tests/fake_gpu/... \
    //engine/model/runtime:libtest_driver.so
}

end_to_end() {
  export HEARTHD=$HEARTH_ROOT/bazel-bin/server/hearthd
  export HEARTH=$HEARTH_ROOT/bazel-bin/client/hearth
  export HEARTH_PIECE=$HEARTH_ROOT/bazel-bin/server/pieces/hearth-piece
  pytests "end-to-end cases" "end to end, over the real socket" tests/e2e "$@"
}

# Only the daemon that HEARTHD_ON_GPU names is told of the GPU: some tests want
# one without.
gpu_tests() {
  prepare_gpu
  [[ -n ${HEARTH_CUDA_PLUGIN:-} ]] || die "there is no GPU to test on; no test has run"
  use_python venv tests/accuracy/requirements.txt
  require "building" build_binaries
  require "building the checks of the plug-in" \
    hearth_bazel build //kernels/cuda:gpu_checks
  check "the plug-in's functions and speeds" bazel-bin/kernels/cuda/gpu_checks
  export HEARTHD_ON_GPU=$results/hearthd
  printf '#!/bin/sh\nexport HEARTH_CUDA_PLUGIN=%q HEARTH_TORCH_CUDA=%q\nexec %q "$@"\n' \
    "$HEARTH_CUDA_PLUGIN" "$HEARTH_TORCH_CUDA" "$HEARTH_ROOT/bazel-bin/server/hearthd" \
    >"$HEARTHD_ON_GPU"
  chmod +x "$HEARTHD_ON_GPU"
  unset HEARTH_CUDA_PLUGIN HEARTH_TORCH_CUDA
  end_to_end -k test_gpu.py
}

tier_1() {
  # It is mostly downloads, which the compilers leave room for.
  make_venv venv tests/accuracy/requirements.txt &>/dev/null &
  check "formatting (clang-format)" format_check
  check "building everything, warnings are errors" build_aloud //...
  check "every include is a declared dependency" include_check
  bazel_tests "unit test targets" //...
  use_python venv tests/accuracy/requirements.txt
  check "types of the Python client (mypy --strict)" type_check
  pytests "Python cases" "Python client" client/python/tests
  pytests "Python cases" "arithmetic of the benchmarks" tests/bench
  pytests "Python cases" "adding up results" tests/structure
  # Two files of cases at a time: half of a case is waiting.
  end_to_end -n 2 --dist loadfile
  asan_tests "${SANITIZED[@]}"
  check "fuzzers of what reads foreign bytes, 5 s each" quick_fuzzers
  tsan_tests "${SANITIZED[@]}"
}

require "installing what is missing" install_packages "${BUILD_PACKAGES[@]}" \
  "${DATA_PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${BENCH_PACKAGES[@]}" "${PACKAGE_PACKAGES[@]}"
case $part in
  "") tier_1 ;;
  asan) asan_tests //engine/... //kernels/... ;;
  asanfront) asan_tests //server/... //client/... //proto/... //tests/... ;;
  # Nothing is precompiled, so that each file must include what it uses.
  tsan) tsan_flags=(--define=precompiled=no) && tsan_tests //... ;;
  faults)
    check "every fault at every call of the file system and of SQLite's" \
      hearth_bazel test --test_output=all \
      --test_timeout=3500 --test_env=HEARTH_FAULT_CASES=all \
      //server:fault_matrix_test
    ;;
  gpu) gpu_tests ;;
  mutants) check "tests notice what is broken on purpose" tests/mutants/run.py ;;
  fuzz) check "fuzzers of what reads foreign bytes, 120 s each" tests/fuzz/run.sh 120 ;;
  python)
    use_python venv-search client/python/tests/requirements.txt
    require "building" build_binaries
    pytests "Python cases" "Python client, with what is optional" client/python/tests
    end_to_end --full python
    ;;
  trackers)
    use_python venv-trackers client/python/tests/trackers_requirements.txt
    require "building" build_binaries
    pytests "Python cases" "Python client, with trackers" client/python/tests/test_trackers.py
    end_to_end --full trackers
    ;;
  page | manifests)
    [[ $part != page ]] ||
      require "installing a browser" install_packages chromium chromium-driver
    use_python venv-deploy tests/e2e/deploy_requirements.txt
    require "building" build_binaries
    end_to_end --full "$part"
    ;;
  package | wheel)
    require "installing what makes chroots and images" install_packages buildah mmdebstrap
    use_python venv tests/accuracy/requirements.txt
    require "building" build_binaries
    end_to_end --full "$part"
    ;;
  *)
    use_python venv tests/accuracy/requirements.txt
    require "building" build_binaries
    end_to_end --full "$part"
    ;;
esac
tests/structure/tally.py "$steps"
