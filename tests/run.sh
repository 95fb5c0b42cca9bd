#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests.
#
#   tests/run.sh           tier 1: everything that ends within minutes
#   tests/run.sh --full    adds tier 2: big sizes, many kills, accuracy runs
#
# Each step says what it does; the last line counts what passed and failed.

source "$(dirname "${BASH_SOURCE[0]}")/../deploy/setup.sh"

full=false
case ${1:-} in
  "") ;;
  --full) full=true ;;
  *) die "usage: tests/run.sh [--full]" ;;
esac

cd "$HEARTH_ROOT"
passed=0
failed=0
python=$HEARTH_CACHE/venv/bin/python
# The published Planetoid files; tests that need them say so where they are not.
planetoid=$HEARTH_ROOT/../shared/data/planetoid
if [[ -d $planetoid ]]; then
  export HEARTH_PLANETOID_RAW=${HEARTH_PLANETOID_RAW:-$planetoid}
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# check NAME COMMAND...: one test that passes if the command does.
check() {
  local name=$1
  shift
  say "$name"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$name"
  fi
}

# bazel_tests NAME FLAGS... -- TARGETS...: counts every test target.
bazel_tests() {
  local name=$1
  shift
  say "$name"
  local status=0
  hearth_bazel test --keep_going --test_summary=short "$@" 2>&1 |
    tee "$log" || status=${PIPESTATUS[0]}
  local good bad
  good=$(grep -cE '^//.* PASSED' "$log" || true)
  bad=$(grep -cE '^//.* (FAILED|TIMEOUT|NO STATUS)' "$log" || true)
  # A build that fails may leave no line of any test.
  if ((status != 0 && bad == 0)); then bad=1; fi
  passed=$((passed + good))
  failed=$((failed + bad))
}

# pytests NAME ARGS...: counts every test case.
pytests() {
  local name=$1
  shift
  say "$name"
  local status=0
  "$python" -m pytest -q -p no:cacheprovider -rs "$@" 2>&1 | tee "$log" ||
    status=${PIPESTATUS[0]}
  local good bad
  good=$(tail -n 1 "$log" | grep -oE '[0-9]+ passed' | cut -d' ' -f1 || true)
  bad=$(tail -n 1 "$log" | grep -oE '[0-9]+ (failed|error)' |
    awk '{ sum += $1 } END { print sum }' || true)
  if ((status != 0 && ${bad:-0} == 0)); then bad=1; fi
  passed=$((passed + ${good:-0}))
  failed=$((failed + ${bad:-0}))
}

format_check() {
  git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format-14 --dry-run -Werror
}

include_check() {
  hearth_query 'kind("cc_(library|binary|test)", //...)' |
    tests/structure/check_includes.py
}

hearth_query() { bazel query --output=xml --noshow_progress "$@"; }

# A virtual environment, named by its requirements, for PyG and pytest.
make_venv() {
  local wanted have
  wanted=$(sha256sum <tests/accuracy/requirements.txt)
  have=$(cat "$HEARTH_CACHE/venv/made-from" 2>/dev/null || true)
  if [[ $wanted == "$have" ]]; then return; fi
  mkdir -p "$HEARTH_CACHE"
  rm -rf "$HEARTH_CACHE/venv"
  /usr/bin/python3 -m venv "$HEARTH_CACHE/venv"
  "$python" -m pip install --quiet --disable-pip-version-check \
    --no-cache-dir --requirement tests/accuracy/requirements.txt
  printf '%s\n' "$wanted" >"$HEARTH_CACHE/venv/made-from"
}

install_packages "${BUILD_PACKAGES[@]}" "${DATA_PACKAGES[@]}" \
  "${TEST_PACKAGES[@]}" "${BENCH_PACKAGES[@]}"
check "formatting (clang-format)" format_check
check "building everything, warnings are errors" hearth_bazel build //...
check "every include is a declared dependency" include_check
bazel_tests "unit tests" //...
bazel_tests "engine under AddressSanitizer and UndefinedBehaviorSanitizer" \
  --config=asan //engine/... //kernels/... //tests/conformance/...
bazel_tests "engine under ThreadSanitizer" \
  --config=tsan //engine/... //kernels/... //tests/conformance/...
fuzz_seconds=5
if $full; then fuzz_seconds=120; fi
check "fuzzers of what reads foreign bytes, $fuzz_seconds s each" \
  tests/fuzz/run.sh "$fuzz_seconds"
check "locks are held where they must be (clang's thread-safety analysis)" \
  hearth_bazel build --config=thread_safety -- //server/... //client/... \
  -//server:hearthd
check "Python environment for PyG and pytest" make_venv
pytests "Python client" client/python/tests
pytests "arithmetic of the benchmarks" tests/bench
export HEARTHD=$HEARTH_ROOT/bazel-bin/server/hearthd
export HEARTH=$HEARTH_ROOT/bazel-bin/client/hearth
hearth_bazel build //server:hearthd //client:hearth
tier=()
if $full; then tier=(--full); fi
pytests "end to end, over the real socket" tests/e2e "${tier[@]}"

printf '\n%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
