#!/usr/bin/env python3
"""Runs PyG and DGL as hearth_bench ran Hearth, and prints both with the same columns.

    peers_bench.py --like hearth_bench.json --environments DIR [--peers pyg,dgl]

Graph, fan-outs, batch size, epochs and hidden width are those of the file. An
unlimited epoch tells what each peer itself holds (Python, torch, topology); its
memory limit is that and as much room for the page cache as Hearth's mmap had. If
Hearth's runs had a fixed limit (--memory-limit SIZE, --large), peers get the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dataset  # noqa: E402
import page_cache  # noqa: E402
from dataset import GraphSize  # noqa: E402
from figures import Run, epoch_of  # noqa: E402
from fio import PAGE_BYTES, DiskRates, Fio, FioError, random_block  # noqa: E402
from memory_cgroup import MemoryCgroup, why_no_cgroup  # noqa: E402
from sizes import format_bytes  # noqa: E402
from strategies import is_mmap  # noqa: E402
from summary import Summary, summarize  # noqa: E402
from table import render  # noqa: E402

FORMAT = "hearth-bench-peers-1"
_HERE = Path(__file__).resolve().parent
_MESSAGE_BYTES = 400


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    advice: str

    @property
    def strategy(self) -> str:
        return f"{self.name}-{self.advice}"


@dataclasses.dataclass(frozen=True)
class Setting:
    """One block of the table."""

    cache_share: float
    model: str
    cache_bytes: int
    page_cache_bytes: Optional[int]  # that mmap had; None = not limited


class Peers:
    """REQUIRES: the dataset of `document` is where hearth_bench left it."""

    def __init__(self, document: dict[str, Any], environments: Path, workers: int) -> None:
        self._settings = document["settings"]
        self._summaries = document["summaries"]
        self._environments = environments
        self._workers = workers
        self._own_bytes: dict[tuple[str, str], int] = {}
        self._size = GraphSize(**self._settings["size"])
        self.folder = dataset.folder_of(Path(self._settings["work"]) / "data", self._size)

    def disk_rates(self) -> Optional[DiskRates]:
        try:
            fio = Fio(dataset.feature_file(self.folder), self._settings["disk_seconds"])
            blocks = (random_block(self._size.row_bytes), PAGE_BYTES)
            return fio.rates(fio.profile(blocks, self._settings["disk_depths"]),
                             self._size.row_bytes)
        except FioError as error:
            print(f"no disk figures: {error}", file=sys.stderr)
            return None

    def settings(self) -> Iterator[Setting]:
        """Memory limits differ between models and caches: one each."""
        seen = set()
        for summary in self._summaries:
            limit = summary["memory_limit_bytes"]
            key = (summary["cache_share"], summary["model"])
            if key in seen or not is_mmap(summary["strategy"]) or summary["failures"]:
                continue
            seen.add(key)
            room = None if limit is None else limit - round(summary["peak_memory_bytes"])
            yield Setting(*key, summary["cache_bytes"], room)

    def run(self, peer: Peer, setting: Setting, number: int) -> Run:
        epochs = self._settings["epochs"]
        if setting.page_cache_bytes is None:
            return self._run_within(peer, setting, number, epochs, None)
        fixed: Optional[int] = self._settings["memory_limit"]
        if fixed is not None:
            return self._run_within(peer, setting, number, epochs, fixed)
        key = (peer.name, setting.model)
        if key not in self._own_bytes:
            # Also brings its libraries into the page cache, at no run's charge.
            alone = self._run_within(peer, setting, number, 1, None)
            if alone.peak_memory_bytes is None:
                return alone
            self._own_bytes[key] = alone.peak_memory_bytes
        limit = self._own_bytes[key] + setting.page_cache_bytes
        return self._run_within(peer, setting, number, epochs, limit)

    def _run_within(self, peer: Peer, setting: Setting, number: int, epochs: int,
                    limit: Optional[int]) -> Run:
        left = page_cache.evict(dataset.array_files(self.folder))
        run = Run(peer.strategy, setting.model, setting.cache_share, setting.cache_bytes, number,
                  limit, left_in_page_cache_bytes=left)
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.json"
            command = self._command(peer, setting, epochs, report)
            if limit is None:
                code, message = _execute(command)
                return _finished(run, report, code, message)
            with MemoryCgroup(limit) as cgroup:
                code, message = _execute(cgroup.command(command))
                usage = cgroup.usage()
            if code and usage["out_of_memory_kills"]:
                message = f"killed at the memory limit of {format_bytes(limit)}"
            return dataclasses.replace(_finished(run, report, code, message),
                                       cgroup_peak_bytes=usage["peak_bytes"])

    def _command(self, peer: Peer, setting: Setting, epochs: int, report: Path) -> list[str]:
        return [str(self._environments / peer.name / "bin/python"),
                str(_HERE / f"{peer.name}_peer.py"), "--dataset", str(self.folder),
                "--advice", peer.advice, "--model", setting.model,
                "--fanouts", self._settings["fanouts"],
                "--batch-size", str(self._settings["batch_size"]),
                "--epochs", str(epochs),
                "--hidden", str(self._settings["hidden"]),
                "--workers", str(self._workers), "--report", str(report)]


def _execute(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          check=False)
    return done.returncode, done.stderr.strip()[-_MESSAGE_BYTES:]


def _finished(run: Run, report: Path, code: int, message: str) -> Run:
    if code != 0 or not report.exists():
        return dataclasses.replace(run, failure=message or f"ended with {code}")
    read = json.loads(report.read_text())
    return dataclasses.replace(run, epochs=tuple(map(epoch_of, read["epochs"])),
                               peak_memory_bytes=read["peak_memory_bytes"])


def _summary_of(stored: dict[str, Any]) -> Summary:
    return Summary(**{**stored, "failures": tuple(stored["failures"])})


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/peers/run.sh",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--like", type=Path, required=True, help="hearth_bench's JSON file")
    parser.add_argument("--environments", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--peers", default="pyg,dgl", help="default %(default)s")
    parser.add_argument("--repeats", type=int, default=1, help="rounds; default 1")
    parser.add_argument("--workers", type=int, default=2,
                        help="loader processes, 0 = in the trainer's; default %(default)s")
    parser.add_argument("--json", type=Path, help="default: peers.json beside --like")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = _arguments(arguments)
    # So that a cgroup goes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    document = json.loads(options.like.read_text())
    peers = Peers(document, options.environments, options.workers)
    settings = list(peers.settings())
    reason = why_no_cgroup()
    if reason:
        print(f"note: memory is not limited: {reason}", file=sys.stderr)
        settings = [dataclasses.replace(setting, page_cache_bytes=None) for setting in settings]
    chosen = [Peer(name, advice) for name in options.peers.split(",") if name
              for advice in ("normal", "random")]
    disk: dict[int, DiskRates] = {}
    runs: list[Run] = []
    for number in range(1, options.repeats + 1):
        rates = peers.disk_rates()
        if rates is not None:
            disk[number] = rates
        for setting in settings:
            for peer in chosen:
                run = peers.run(peer, setting, number)
                runs.append(run)
                print(f"==> round {number}, {run.strategy}, model {run.model}: "
                      + (run.failure or ", ".join(f"{each.seconds:.2f} s" for each in run.epochs)),
                      file=sys.stderr, flush=True)
    return _write(options, document, runs, summarize(runs, disk))


def _write(options: argparse.Namespace, document: dict[str, Any], runs: list[Run],
           summaries: list[Summary]) -> int:
    path = options.json or options.like.with_name("peers.json")
    path.write_text(json.dumps({
        "format": FORMAT, "like": str(options.like.resolve()), "workers": options.workers,
        "runs": [dataclasses.asdict(run) for run in runs],
        "summaries": [dataclasses.asdict(summary) for summary in summaries]}, indent=1) + "\n")
    hearth = [_summary_of(stored) for stored in document["summaries"]]
    print(render([*hearth, *summaries]))
    for run in runs:
        if run.memory_limit_bytes and not run.failure:
            print(f"limit of {run.strategy}, model {run.model}: "
                  f"{format_bytes(run.memory_limit_bytes)}")
    print(f"figures: {path}")
    return 1 if any(run.failure for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
