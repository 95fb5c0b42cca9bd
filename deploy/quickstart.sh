#!/usr/bin/env bash
# From nothing to a trained model: installs what is missing, builds, starts the
# daemon, imports WordNet, trains GraphSAGE on it, prints the test accuracy and
# stops the daemon.
#
#   deploy/quickstart.sh [--keep]     --keep leaves the daemon running
#
# HEARTH_HOME (default ~/.hearth) is the daemon's data directory. Run again, it
# reuses whatever is still right: packages, build, source arrays, dataset.

source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

keep=false
case ${1:-} in
  "") ;;
  --keep) keep=true ;;
  *) die "usage: deploy/quickstart.sh [--keep]" ;;
esac

export HEARTH_HOME=${HEARTH_HOME:-$HOME/.hearth}
export HEARTH_SERVER=${HEARTH_SERVER:-unix:$HEARTH_HOME/hearth.sock}
hearth=$HEARTH_ROOT/bazel-bin/client/hearth
hearthd=$HEARTH_ROOT/bazel-bin/server/hearthd
daemon_pid=

stop_daemon() {
  if [[ -n $daemon_pid ]] && kill -TERM "$daemon_pid" 2>/dev/null; then
    wait "$daemon_pid" || true
    say "the daemon has stopped; --keep would have left it running"
  fi
}

# Starts hearthd on $HEARTH_HOME unless one answers there already.
start_daemon() {
  local status
  if status=$("$hearth" status --output json 2>/dev/null); then
    grep -qF "\"$(realpath -m "$HEARTH_HOME")\"" <<<"$status" ||
      die "another daemon answers at $HEARTH_SERVER: set HEARTH_SERVER and HEARTH_HOME"
    say "using the daemon that runs at $HEARTH_SERVER"
    return
  fi
  say "starting hearthd at $HEARTH_SERVER on $HEARTH_HOME (log: $HEARTH_HOME/hearthd.log)"
  mkdir -p -m 700 "$HEARTH_HOME"
  local listen=()
  [[ $HEARTH_SERVER == unix:* ]] || listen=(--listen "$HEARTH_SERVER")
  if $keep; then
    setsid "$hearthd" --data-dir "$HEARTH_HOME" "${listen[@]}" \
      >>"$HEARTH_HOME/hearthd.log" 2>&1 </dev/null &
  else
    "$hearthd" --data-dir "$HEARTH_HOME" "${listen[@]}" \
      >>"$HEARTH_HOME/hearthd.log" 2>&1 </dev/null &
    trap stop_daemon EXIT
  fi
  daemon_pid=$!
  for _ in $(seq 100); do
    if "$hearth" status >/dev/null 2>&1; then return; fi
    kill -0 "$daemon_pid" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 5 "$HEARTH_HOME/hearthd.log" >&2
  die "hearthd did not start"
}

# The id of an import of WordNet that has not ended; empty without one. A daemon
# goes on with what an interrupted run of this script left.
unfinished_import() {
  "$hearth" job list --state queued,preparing,running,waiting --output json |
    /usr/bin/python3 -c 'import json, sys
for job in json.load(sys.stdin)["jobs"]:
    if (job["spec"].get("import") or {}).get("name") == "wordnet":
        print(job["id"])'
}

# Makes the source arrays and imports them unless the daemon has the dataset.
import_wordnet() {
  local unfinished
  unfinished=$(unfinished_import)
  if [[ -n $unfinished ]]; then
    say "going on with the import of WordNet, $unfinished"
    "$hearth" job watch "$unfinished"
  fi
  if "$hearth" dataset show wordnet >/dev/null 2>&1; then
    say "the dataset wordnet is there"
    return
  fi
  say "making arrays from WordNet 3.0 (Debian's wordnet-base)"
  PYTHONPATH=$HEARTH_ROOT/client/python /usr/bin/python3 \
    -m hearth.datasets.wordnet --source /usr/share/wordnet \
    --output "$HEARTH_HOME/sources/wordnet"
  say "importing them as the dataset wordnet"
  "$hearth" dataset import wordnet --format numpy \
    --source "$HEARTH_HOME/sources/wordnet"
}

install_packages "${BUILD_PACKAGES[@]}" "${DATA_PACKAGES[@]}"
say "building: about $(build_minutes) minutes on $(nproc) cores, with nothing built yet (a wheel needs no build: README.md)"
build_aloud //server:hearthd //client:hearth
prepare_gpu
start_daemon
import_wordnet
say "training GraphSAGE: 3 layers of 256, 5 epochs"
"$hearth" train --dataset wordnet --strategy mmap --model sage \
  --fanouts 10,10,10 --hidden 256 --batch-size 1024 --epochs 5 --lr 0.003 \
  --dropout 0.2 --seed 1
if $keep; then
  say "the daemon goes on at $HEARTH_SERVER (pid ${daemon_pid:-see hearth status}); stop it with: kill -TERM PID"
fi
