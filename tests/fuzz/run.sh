#!/usr/bin/env bash
# Builds the fuzzers and runs each for a while, from the seeds of make_seeds.py.
#
#   tests/fuzz/run.sh SECONDS [NAME...]     all of them, or npy, zip, torch, ...
#
# Prints "NAME: N executions, no finding". A finding fails: its input stays in a
# temporary folder and is printed in base64. Make it a unit test.

source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/setup.sh"

[[ ${1:-} =~ ^[1-9][0-9]*$ ]] ||
  die "usage: tests/fuzz/run.sh SECONDS [NAME...]"
seconds=$1
shift
cd "$HEARTH_ROOT"
names=("$@")
if ((${#names[@]} == 0)); then
  for source in tests/fuzz/*_fuzzer.cc; do
    names+=("$(basename "$source" _fuzzer.cc)")
  done
fi
targets=()
of_messages=()
for name in "${names[@]}"; do
  case $name in
    feed) of_messages+=("//tests/fuzz:${name}_fuzzer") ;;
    *) targets+=("//tests/fuzz:${name}_fuzzer") ;;
  esac
done

if ((${#targets[@]} > 0)); then hearth_bazel build --config=asan "${targets[@]}"; fi
# clang's precompiled headers of messages name files of the sandbox that they were
# made in, which is gone where they come out of the disk cache.
if ((${#of_messages[@]} > 0)); then
  hearth_bazel build --config=asan --define=precompiled=no "${of_messages[@]}"
fi
binaries=$(bazel info --config=asan bazel-bin 2>/dev/null)/tests/fuzz
work=$(mktemp -d --tmpdir hearth-fuzz.XXXXXX)
tests/fuzz/make_seeds.py "$work/seeds"
findings=0

# fuzz NAME: fails after printing what it found.
fuzz() {
  local name=$1
  local log=$work/$name.log artifacts=$work/findings/$name
  local dictionary=tests/fuzz/dictionaries/$name.dict options=()
  if [[ -f $dictionary ]]; then options+=("-dict=$dictionary"); fi
  mkdir -p "$artifacts" "$work/corpus/$name"
  # An input may take 10 seconds and, sanitizers included, 2 GiB.
  if "$binaries/${name}_fuzzer" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$artifacts/" \
    "${options[@]}" "$work/corpus/$name" "$work/seeds/$name" >"$log" 2>&1; then
    printf '%s: %s executions, no finding\n' "$name" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
    return
  fi
  tail -n 60 "$log"
  local artifact
  for artifact in "$artifacts"/*; do
    [[ -f $artifact ]] || continue
    printf '%s: FOUND %s\n' "$name" "$artifact"
    base64 "$artifact"
  done
  return 1
}

for name in "${names[@]}"; do
  fuzz "$name" || findings=$((findings + 1))
done
if ((findings > 0)); then
  die "$findings of ${#names[@]} fuzzers found something, kept in $work"
fi
rm -rf "$work"
