#!/usr/bin/env python3
"""The regret of `--strategy auto`: what its jobs take, by the best fixed strategy's.

For each case of a grid of dataset, memory, epochs and model, each strategy with automatic budgets
and `auto` run the same job, from submission to its end, each on a fresh daemon, without plans, the
dataset out of the page cache. The daemon's jobs get as much memory as `memory` needs at most
without the features, and a share of the features. The disk's profile, which a daemon measures once
a day, stays. HEARTHD and HEARTH name the binaries. Runs are appended to a file as they end; what is
there does not run again, unless it failed.

Exit codes: 0 done, 1 a job of auto failed, or losses differ between strategies, 2 usage.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, Optional, Sequence

import dataset
import page_cache
from bench import make_dataset, say
from dataset import NoRoom
from hearth_daemon import HearthDaemon, OutOfTime, RunFailed
from memory_cgroup import MemoryCgroup, why_no_cgroup
from regret_figures import (AUTO, GridRun, Outcome, Results, ready_seconds, render_regret,
                            seconds_between, seconds_given, summarize, wants_run)
from settings import MODELS, Settings, parse_settings
from sizes import MIB, format_bytes, parse_shares

_CPU_CACHE = ("--cpu-cache", "auto")
# Those that auto chooses from for jobs in shuffled order, with the options that leave their budgets
# to the daemon.
FIXED: dict[str, tuple[str, ...]] = {
    "memory": (),
    "foresight": _CPU_CACHE,
    "diskgnn": _CPU_CACHE,
    "gids": (),
    "ginex": _CPU_CACHE,
    "gnndrive": _CPU_CACHE,
    "mmap": (),
}
_WORDNET = "wordnet"
_WORDNET_SOURCE = Path("/usr/share/wordnet")  # of Debian's wordnet-base
_PYTHON_CLIENT = Path(__file__).resolve().parents[2] / "client/python"
# Options of run.sh that describe a dataset's graph and the batches of jobs on it.
DATASETS: dict[str, tuple[str, ...]] = {
    # 1 GiB of features.
    "rmat": ("--graph", "rmat", "--nodes", str(1 << 21), "--train-share", "0.01"),
    "communities": (),
    "large": ("--large",),
    _WORDNET: ("--batch-size", "1024", "--fanouts", "10,10,10"),
    "tiny": ("--quick",),
}
_USUAL_DATASETS = "rmat,communities,large,wordnet"
# Epochs, and how many of them have batches of their own.
EPOCHS = {"1": (1, 1), "3": (3, 3), "10of2": (10, 2)}
_HIDDEN = "16"
_RESOURCE_EXHAUSTED = 8
# What the daemon holds itself.
_DAEMON_BYTES = 64 * MIB


@dataclasses.dataclass(frozen=True)
class Case:
    dataset: str  # of DATASETS
    share: float  # of the features
    epochs: str  # of EPOCHS
    model: str

    @property
    def name(self) -> str:
        return f"{self.dataset}/{100 * self.share:g}%/{self.epochs}/{self.model}"


@dataclasses.dataclass(frozen=True)
class Grid:
    """What the command line asks for."""

    cases: tuple[Case, ...]
    fixed: tuple[str, ...]
    work: Path
    results: Path
    rounds: int
    limit_seconds: float
    slower: float


def job_arguments(settings: Settings, case: Case) -> list[str]:
    """Of `hearth train`, but for the strategy."""
    epochs, distinct = EPOCHS[case.epochs]
    options = {**settings.job_options(), "--epochs": str(epochs),
               "--distinct-epochs": str(distinct), "--model": case.model, "--hidden": _HIDDEN,
               **({"--dataset": _WORDNET} if case.dataset == _WORDNET else {})}
    return [word for option in options.items() for word in option]


class RegretBench:
    """Runs cases; what is in the results already does not run again."""

    def __init__(self, grid: Grid, results: Results) -> None:
        self._grid = grid
        self._results = results
        self._data_dir = grid.work / "data"
        self._settings = {name: parse_settings([*arguments, "--work", str(grid.work)])
                          for name, arguments in DATASETS.items()}
        reason = why_no_cgroup()
        self._use_cgroups = reason is None
        if reason:
            say(f"the page cache is not limited: {reason}")

    def run(self, case: Case) -> None:
        for number in range(1, self._grid.rounds + 1):
            for strategy in (AUTO, *self._grid.fixed):
                runs = self._results.of(case.name)
                if not wants_run(runs, strategy, number):
                    continue
                limit = runs[0].memory_limit_bytes if runs else self._memory_limit(case)
                seconds = seconds_given(runs, strategy, self._grid.limit_seconds,
                                        self._grid.slower)
                run = GridRun(case.name, strategy, number, Outcome.FAILED, limit)
                if not runs:
                    # A virtual machine's host takes back what is free: the first run would pay
                    # for getting memory again.
                    self._measure(run, case, seconds)
                run = self._measure(run, case, seconds)
                self._results.add(run)
                say(f"{case.name}, round {number}, {strategy}: {run.outcome.value}"
                    + (f" after {run.seconds:.2f} s" if run.seconds else "")
                    + (f", chose {run.chose}" if run.chose else "")
                    + (f": {run.reason}" if run.reason else ""))

    def make(self, name: str) -> Optional[str]:
        """Makes a dataset, unless it is there. Gives why it cannot be made."""
        if name != _WORDNET:
            make_dataset(self._settings[name], self._data_dir)
            return None
        if self._folder(name).exists():
            return None
        return self._import_wordnet()

    def clear(self) -> None:
        """Removes plans, measured sizes of batches, and jobs that an interrupted run has left
        behind."""
        with HearthDaemon(self._data_dir) as daemon:
            for job in daemon.json("job", "list")["jobs"]:
                if job["state"] != "SUCCEEDED":
                    self._remove(daemon, job["id"])
            for plan in daemon.json("plan", "list")["plans"]:
                daemon.call("plan", "delete", plan["name"])
        # No plans to the daemon, though it keeps them there.
        for sizes in (self._data_dir / "plans").glob("batches-*.json"):
            sizes.unlink()

    @staticmethod
    def _remove(daemon: HearthDaemon, job_id: str) -> None:
        """Whatever its state; it may end meanwhile."""
        for command in ("cancel", "watch"):
            with contextlib.suppress(RunFailed):
                daemon.json("job", command, job_id)
        daemon.json("job", "delete", job_id)

    def _folder(self, name: str) -> Path:
        known = _WORDNET if name == _WORDNET else self._settings[name].size.name
        return self._data_dir / "datasets" / known

    def _import_wordnet(self) -> Optional[str]:
        if not _WORDNET_SOURCE.is_dir():
            return f"{_WORDNET_SOURCE} is not there (Debian's wordnet-base)"
        arrays = self._grid.work / "sources" / _WORDNET
        arrays.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "hearth.datasets.wordnet", "--source", str(_WORDNET_SOURCE),
             "--output", str(arrays)], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(_PYTHON_CLIENT)})
        if done.returncode:
            return done.stderr.strip().splitlines()[-1]
        with HearthDaemon(self._data_dir) as daemon:
            daemon.json("dataset", "import", _WORDNET, "--format", "numpy",
                        "--source", str(arrays))
        return None

    def _memory_limit(self, case: Case) -> int:
        """Also lets the daemon measure the disk, which it does once a day."""
        features = dataset.feature_file(self._folder(case.dataset)).stat().st_size
        arguments = job_arguments(self._settings[case.dataset], case)
        with HearthDaemon(self._data_dir) as daemon:
            report = daemon.json("explain", *arguments, "--strategy", AUTO)["report"]
        (memory,) = (candidate for candidate in report["auto"]["candidates"]
                     if candidate["strategy"] == "memory")
        limit: int = memory["memory_bytes"] - round((1 - case.share) * features)
        say(f"{case.name}: jobs get {format_bytes(limit)}")
        return limit

    def _measure(self, run: GridRun, case: Case, seconds: float) -> GridRun:
        """The run with its outcome."""
        self.clear()
        page_cache.evict(dataset.array_files(self._folder(case.dataset)))
        run = dataclasses.replace(run, load_average=os.getloadavg()[0],
                                  unix_seconds=round(time.time()))
        limit = run.memory_limit_bytes
        if not self._use_cgroups:
            return self._try(run, case, seconds, None)
        # Of a container's memory, jobs get nine tenths.
        with MemoryCgroup(limit * 10 // 9 + _DAEMON_BYTES) as cgroup:
            run = self._try(run, case, seconds, cgroup)
            killed = cgroup.usage()["out_of_memory_kills"]
        if run.outcome == Outcome.FAILED and killed:
            return dataclasses.replace(run, reason=f"killed at the memory limit ({run.reason})")
        return run

    def _try(self, run: GridRun, case: Case, seconds: float,
             cgroup: Optional[MemoryCgroup]) -> GridRun:
        try:
            with HearthDaemon(self._data_dir, cgroup, limits_jobs=True,
                              flags=("--memory-limit", str(run.memory_limit_bytes))) as daemon:
                return self._train(run, case, seconds, daemon)
        except RunFailed as error:
            return dataclasses.replace(run, reason=str(error))

    def _train(self, run: GridRun, case: Case, seconds: float, daemon: HearthDaemon) -> GridRun:
        arguments = job_arguments(self._settings[case.dataset], case)
        job_id = daemon.json("train", *arguments, "--strategy", run.strategy,
                             *FIXED.get(run.strategy, ()), "--detach")["id"]
        begin = time.monotonic()
        try:
            job = daemon.json("job", "watch", job_id, seconds=seconds)
        except OutOfTime:
            taken = time.monotonic() - begin
            self._remove(daemon, job_id)
            return dataclasses.replace(run, outcome=Outcome.STOPPED, seconds=taken)
        except RunFailed as failure:
            error = daemon.json("job", "show", job_id)["error"] or {}
            refused = error.get("code") == _RESOURCE_EXHAUSTED
            return dataclasses.replace(
                run, outcome=Outcome.REFUSED if refused else Outcome.FAILED, reason=str(failure))
        report = job["report"]
        lines = daemon.json("job", "logs", job_id)["lines"]
        run = dataclasses.replace(
            run, outcome=Outcome.ENDED, ready_seconds=ready_seconds(job["create_time"], lines),
            seconds=seconds_between(job["create_time"], job["end_time"]),
            peak_memory_bytes=report["peak_memory_bytes"],
            memory_bound_bytes=report["memory_bound_bytes"], loss_digest=report["loss_digest"])
        choice = report["auto"]
        if choice is not None:
            # None where memory was too short to compare any. What a second choice tells is about
            # the epochs that are left.
            told = [each["seconds"] for each in choice["candidates"]
                    if each["strategy"] == choice["strategy"]]
            run = dataclasses.replace(
                run, chose=choice["strategy"], before=choice["before"],
                told_seconds=(told[0] or None) if told and not choice["before"] else None)
        daemon.call("job", "delete", job_id)
        return run


def _names(text: str, known: Sequence[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"{text!r}: there are {', '.join(known)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/bench/run.sh --regret", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    work = Path(os.environ.get("HEARTH_CACHE", Path.home() / ".cache/hearth")) / "bench"
    add = parser.add_argument
    add("--datasets", default=_USUAL_DATASETS,
        help=f"of {', '.join(DATASETS)}; default %(default)s")
    add("--caches", default="10%,25%,100%", metavar="SHARES",
        help="memory for rows as shares of the features; default 10%%,25%%,100%%")
    add("--epochs", default=",".join(EPOCHS),
        help="1, 3 (distinct), 10of2 (distinct); default %(default)s")
    add("--models", default=",".join(MODELS), help="default %(default)s")
    add("--cases", default="", metavar="TEXT",
        help="only those cases whose name, such as rmat/10%%/3/sage, has this in it")
    add("--strategies", default=",".join(FIXED), help="fixed ones; default %(default)s")
    add("--rounds", type=int, default=1, help="default %(default)s")
    add("--limit-seconds", type=float, default=600.0,
        help="after which a job is stopped; default %(default)s")
    add("--slower", type=float, default=3.0,
        help="a fixed strategy is stopped after so many times the case's best; default %(default)s")
    add("--work", type=Path, default=work,
        help="folder of datasets, on the disk to be measured; plans in it are deleted; "
        "default %(default)s")
    add("--results", type=Path, help="lines of JSON; default WORK/regret.jsonl")
    return parser


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    models = _names(options.models, MODELS)
    epochs = _names(options.epochs, tuple(EPOCHS))
    for name in _names(options.datasets, tuple(DATASETS)):
        for share in parse_shares(options.caches):
            for length in epochs:
                for model in models:
                    case = Case(name, share, length, model)
                    if options.cases in case.name:
                        yield case


def parse_grid(arguments: Sequence[str]) -> Grid:
    """Ends the process with usage 2 where the arguments make no sense."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.limit_seconds <= 0 or options.slower < 1:
        parser.error("--rounds and --slower are at least 1, --limit-seconds is above 0")
    try:
        cases = tuple(_cases(options))
        fixed = _names(options.strategies, tuple(FIXED))
    except ValueError as error:
        parser.error(str(error))
    if not cases:
        parser.error(f"no case has {options.cases!r} in its name")
    work = options.work.expanduser().resolve()
    return Grid(cases, fixed, work, (options.results or work / "regret.jsonl").resolve(),
                options.rounds, options.limit_seconds, options.slower)


def _measure(grid: Grid, results: Results) -> dict[str, str]:
    """Runs what is missing. Gives the datasets that were left out, and why."""
    bench = RegretBench(grid, results)
    left_out = {}
    for name in dict.fromkeys(case.dataset for case in grid.cases):
        reason = bench.make(name)
        if reason:
            left_out[name] = reason
    for case in grid.cases:
        if case.dataset not in left_out:
            bench.run(case)
    bench.clear()
    return left_out


def main(arguments: Sequence[str]) -> int:
    grid = parse_grid(arguments)
    # So that the daemon ends and its cgroup goes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        results = Results(grid.results)
        left_out = _measure(grid, results)
    except (NoRoom, RunFailed, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    measured = {case.name: runs for case in grid.cases if (runs := results.of(case.name))}
    summaries = [summarize(name, runs) for name, runs in measured.items()]
    print(render_regret(summaries, grid.fixed))
    for name, reason in left_out.items():
        print(f"left out: {name}: {reason}")
    wrong = False
    for summary in summaries:
        for strategy, reason in summary.failed.items():
            print(f"failed: {summary.case}, {strategy}: {reason}")
        if len(summary.digests) > 1:
            print(f"losses differ: {summary.case}")
        wrong = (wrong or AUTO in {*summary.failed, *summary.refused}
                 or len(summary.digests) > 1)
    print(f"runs: {grid.results}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
