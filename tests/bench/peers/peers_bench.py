#!/usr/bin/env python3
"""Runs PyG, DGL and GraphBolt, and PyG's layers on Hearth's batches, as hearth_bench ran Hearth.

    peers_bench.py --like hearth_bench.json --environments DIR [--peers pyg,dgl,graphbolt,hearth]
    peers_bench.py --turns 3 --environments DIR [...] -- OPTIONS_OF_RUN_SH

Graph, fan-outs, batch size, epochs and hidden width are those of the file. An
unlimited epoch tells what each peer itself holds (Python, torch, topology); its
memory limit is that and as much room for the page cache as Hearth's mmap had. If
Hearth's runs had a fixed limit (--memory-limit SIZE, --large), peers get the same.

With --turns, Hearth runs too, one round before each round of the peers, so that
ratios to Hearth's `memory` and `mmap` are of one round.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterable, Optional

from peer_runs import FEATURES_OF, Options, Peer, Peers, Setting

import dataset  # noqa: E402  (peer_runs names the folder of these)
from figures import Run  # noqa: E402
from fio import PAGE_BYTES, DiskRates, Fio, FioError, random_block  # noqa: E402
from memory_cgroup import why_no_cgroup  # noqa: E402
from memory_limit import features_fit  # noqa: E402
from sizes import format_bytes  # noqa: E402
from stored_runs import disk_of, runs_of  # noqa: E402
from summary import Summary, summarize  # noqa: E402
from table import render  # noqa: E402

FORMAT = "hearth-bench-peers-2"
_RUN_SH = Path(__file__).resolve().parents[1] / "run.sh"


@dataclasses.dataclass
class Outcome:
    """All that was found out, Hearth's figures among it."""

    runs: list[Run] = dataclasses.field(default_factory=list)  # of peers
    hearth: list[Run] = dataclasses.field(default_factory=list)  # of the same rounds
    disk: dict[int, DiskRates] = dataclasses.field(default_factory=dict)
    versions: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/peers/run.sh",
                                     description=__doc__.splitlines()[0],
                                     usage="%(prog)s (--like FILE | --turns N) [OPTIONS] "
                                           "[-- OPTIONS OF tests/bench/run.sh]")
    add = parser.add_argument
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument("--like", type=Path, help="hearth_bench's JSON file")
    whom.add_argument("--turns", type=int, metavar="N",
                      help="N rounds, each of Hearth's strategies and then of the peers")
    add("--environments", type=Path, required=True, help=argparse.SUPPRESS)
    add("--peers", type=_names, default=["pyg", "dgl"], help="default pyg,dgl")
    add("--features", type=_names, help="where peers have their features: some of memory, "
        "normal, random (mapped), disk, disk-cached (GraphBolt's), gnndrive, diskgnn (hearth's); "
        "default all")
    add("--precision", choices=("fp32", "bf16"), default="fp32",
        help="of their models, Hearth's runs take it after --, too; bf16: torch's autocast; "
        "default %(default)s")
    add("--device", choices=("cpu", "cuda"), default="cpu",
        help="what trains their models; Hearth's runs take it after --, too; default %(default)s")
    add("--repeats", type=int, default=1, help="rounds with --like; default 1")
    add("--workers", type=int, default=2,
        help="loader processes, 0 = in the trainer's; default %(default)s")
    add("--run-seconds", type=float, default=3600, help="of each run at most; default 3600")
    add("--json", type=Path,
        help="default: peers.json beside --like, or in the default --work of Hearth's runs")
    before, after = arguments, []
    if "--" in arguments:
        cut = arguments.index("--")
        before, after = arguments[:cut], arguments[cut + 1:]
    options = parser.parse_args(before)
    if after and options.like:
        parser.error("options after -- are those of Hearth's runs, which --like has done")
    options.hearth = after
    return options


def chosen_peers(names: Iterable[str], features: Optional[Iterable[str]],
                 fit_in_memory: bool) -> list[Peer]:
    wanted = None if features is None else set(features)
    return [Peer(name, where) for name in names for where in FEATURES_OF[name]
            if (wanted is None or where in wanted) and (where != "memory" or fit_in_memory)]


def _disk_rates(peers: Peers, settings: dict[str, Any]) -> Optional[DiskRates]:
    try:
        fio = Fio(dataset.feature_file(peers.folder), settings["disk_seconds"])
        blocks = (random_block(peers.size.row_bytes), PAGE_BYTES)
        return fio.rates(fio.profile(blocks, settings["disk_depths"]), peers.size.row_bytes)
    except FioError as error:
        print(f"no disk figures: {error}", file=sys.stderr)
        return None


def _run_all(peers: Peers, chosen: list[Peer], number: int) -> list[Run]:
    """One round. What keeps no cache runs once for all caches with the same memory."""
    runs: list[Run] = []
    done: dict[tuple[Peer, str, Optional[int]], Run] = {}
    for setting in peers.settings():
        for peer in chosen:
            key = (peer, setting.model, setting.page_cache_bytes if peer.limited else None)
            if not peer.keeps_cache and key in done:
                runs.append(dataclasses.replace(done[key], cache_share=setting.cache_share,
                                                cache_bytes=setting.cache_bytes))
                continue
            done[key] = _run(peers, peer, setting, number)
            runs.append(done[key])
    return runs


def _run(peers: Peers, peer: Peer, setting: Setting, number: int) -> Run:
    run = peers.run(peer, setting, number)
    print(f"==> round {number}, {run.strategy}, model {run.model}: "
          + (run.failure or ", ".join(f"{each.seconds:.2f} s" for each in run.epochs)),
          file=sys.stderr, flush=True)
    return run


def _new_peers(options: argparse.Namespace, document: dict[str, Any]) -> Peers:
    reason = why_no_cgroup()
    if reason:
        print(f"note: memory is not limited: {reason}", file=sys.stderr)
    return Peers(document, Options(options.environments, options.workers, options.precision,
                                   options.device, options.run_seconds,
                                   limit_memory=reason is None))


def _like(options: argparse.Namespace) -> tuple[Outcome, list[Summary]]:
    """Rounds of the peers alone, beside what Hearth's runs came to."""
    document = json.loads(options.like.read_text())
    peers = _new_peers(options, document)
    chosen = chosen_peers(options.peers, options.features, features_fit(peers.size.feature_bytes))
    outcome = Outcome()
    for number in range(1, options.repeats + 1):
        rates = _disk_rates(peers, document["settings"])
        if rates is not None:
            outcome.disk[number] = rates
        outcome.runs += _run_all(peers, chosen, number)
    outcome.versions = peers.versions
    hearth = [Summary(**{**stored, "failures": tuple(stored["failures"])})
              for stored in document["summaries"]]
    return outcome, [*hearth, *summarize(outcome.runs, outcome.disk)]


def _in_turns(options: argparse.Namespace) -> tuple[Outcome, list[Summary]]:
    outcome = Outcome()
    for number in range(1, options.turns + 1):
        path = options.json.with_suffix(f".{number}.json")
        # The last of options that are given twice counts.
        subprocess.run([str(_RUN_SH), *options.hearth, "--repeats", "1", "--json", str(path)],
                       check=False)
        document = json.loads(path.read_text())
        peers = _new_peers(options, document)
        chosen = chosen_peers(options.peers, options.features,
                              features_fit(peers.size.feature_bytes))
        outcome.hearth += runs_of(document, number)
        outcome.disk.update(disk_of(document, number))
        outcome.runs += _run_all(peers, chosen, number)
        outcome.versions.update(peers.versions)
    return outcome, summarize([*outcome.hearth, *outcome.runs], outcome.disk)


def _write(options: argparse.Namespace, outcome: Outcome, summaries: list[Summary]) -> None:
    options.json.write_text(json.dumps({
        "format": FORMAT, "like": str(options.like.resolve()) if options.like else None,
        "workers": options.workers, "precision": options.precision, "versions": outcome.versions,
        "hearth_runs": [dataclasses.asdict(run) for run in outcome.hearth],
        "runs": [dataclasses.asdict(run) for run in outcome.runs],
        "summaries": [dataclasses.asdict(summary) for summary in summaries]}, indent=1) + "\n")


def _print(options: argparse.Namespace, outcome: Outcome, summaries: list[Summary]) -> None:
    print(render(summaries))
    for run in outcome.runs:
        if run.memory_limit_bytes and not run.failure:
            print(f"limit of {run.strategy}, model {run.model}: "
                  f"{format_bytes(run.memory_limit_bytes)}")
    for name, versions in outcome.versions.items():
        print(f"{name}: " + ", ".join(f"{what} {which}" for what, which in versions.items())
              + f"; {options.precision}, {options.workers} loader processes")
    print(f"figures: {options.json}")


def main(arguments: list[str]) -> int:
    options = _arguments(arguments)
    beside = options.like or Path(
        os.environ.get("HEARTH_CACHE", Path.home() / ".cache/hearth"), "bench/any.json")
    options.json = options.json or beside.with_name("peers.json")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    # So that a cgroup goes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    outcome, summaries = _like(options) if options.like else _in_turns(options)
    _write(options, outcome, summaries)
    _print(options, outcome, summaries)
    return 1 if any(run.failure for run in [*outcome.runs, *outcome.hearth]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
