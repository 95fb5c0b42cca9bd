"""Measures a sweep of jobs on equal data: sharing their passes, and each for itself.

Three things are timed for each strategy and for one model or several, from submission to end, on
a fresh daemon with a cold page cache: one job alone (of several models, one of each), `count` jobs
as one sweep, and the same sweep on a daemon whose jobs do not share (`hearthd --convoy-members
1`). All jobs test their models, as the one alone does.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from pathlib import Path
from typing import Any, Optional, Sequence

import dataset
import page_cache
from hearth_daemon import HearthDaemon
from settings import Settings
from sizes import format_bytes
from strategies import Strategy

_ALONE = ("--convoy-members", "1")

# Trials are judged by their models: in place of none the data path has one that costs little.
TINY = "tiny"
# The models of the sweep's jobs, and their hidden units if not those of the settings.
MODELS: dict[str, tuple[tuple[str, ...], Optional[str]]] = {
    TINY: (("sage",), "1"),
    "sage": (("sage",), None),
    "mixed": (("sage", "gcn", "gat"), None),
}


@dataclasses.dataclass(frozen=True)
class SweepRun:
    """What one strategy did with one model in one round."""

    strategy: str
    model: str
    round: int
    count: int
    # With several models the mean over the sweep's jobs, as all that follows of one job.
    alone_seconds: float
    shared_seconds: float
    separate_seconds: float
    # Seconds in which the one job trained, the data path apart.
    training_seconds: float
    # None = the strategy does not know.
    alone_bytes: Optional[int]
    shared_bytes: Optional[int]
    separate_bytes: Optional[int]


@dataclasses.dataclass(frozen=True)
class _Timed:
    seconds: float
    # Job by job.
    models: list[str]
    reports: list[dict[str, Any]]


def bytes_of(report: dict[str, Any]) -> Optional[int]:
    """All that a job's passes read, or its part of what it shared; None = not known."""
    if report.get("company"):
        return int(report["company"]["bytes_charged"])
    total = 0
    for one in [*report["epochs"], *(epoch["validation"] for epoch in report["epochs"]),
                report["test"]]:
        if one is None or not one["batches"]:
            continue
        if one["bytes_read"] is None:
            return None
        total += int(one["bytes_read"])
    return total


def model_of(job: dict[str, Any]) -> str:
    """The name of the model that a train job trains."""
    (train,) = job["spec"]["train"]["trains"]
    return next(name for names, _ in MODELS.values() for name in names if train.get(name))


def training_seconds(report: dict[str, Any]) -> float:
    """Seconds in which the trainer of a job was busy."""
    return sum(float(stage["busy_seconds"]) for epoch in report["epochs"]
               for stage in epoch["stages"] if stage["name"] == "train")


def total(values: Sequence[Optional[int]]) -> Optional[int]:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _ratio(part: Optional[float], whole: Optional[float]) -> str:
    return f"{part / whole:.2f}" if part is not None and whole else "?"


def _median(runs: Sequence[SweepRun], name: str) -> Optional[float]:
    values = [getattr(run, name) for run in runs]
    return None if None in values else statistics.median(values)


def render_sweeps(runs: Sequence[SweepRun]) -> str:
    """A table of medians over rounds; ratios are to the job alone."""
    lines = [f"{'strategy':<16}{'model':<7}{'alone s':>9}{'sweep s':>9}{'x alone':>9}"
             f"{'separate':>10}{'x sweep':>9}{'bytes x':>9}{'read':>12}{'of CPU':>8}"]
    paths: dict[str, float] = {}
    for strategy, model in dict.fromkeys((run.strategy, run.model) for run in runs):
        group = [run for run in runs if (run.strategy, run.model) == (strategy, model)]
        alone, shared, separate = (_median(group, f"{name}_seconds")
                                   for name in ("alone", "shared", "separate"))
        read_alone, read_shared = (_median(group, f"{name}_bytes") for name in ("alone", "shared"))
        if model == TINY:
            paths[strategy] = alone or 0.0
        bound = ("" if model == TINY or strategy not in paths else _ratio(
            shared, group[0].count * (_median(group, "training_seconds") or 0) + paths[strategy]))
        lines.append(f"{strategy:<16}{model:<7}{alone:>9.1f}{shared:>9.1f}"
                     f"{_ratio(shared, alone):>9}{separate:>10.1f}{_ratio(separate, shared):>9}"
                     f"{_ratio(read_shared, read_alone):>9}"
                     f"{format_bytes(read_shared) if read_shared is not None else '?':>12}"
                     f"{bound:>8}")
    return "\n".join(lines)


class SweepBench:
    """REQUIRES: the dataset is in the data directory."""

    def __init__(self, settings: Settings, data_dir: Path, cache_bytes: int) -> None:
        self._settings = settings
        self._data_dir = data_dir
        self._cache_bytes = cache_bytes
        self._files = dataset.array_files(dataset.folder_of(data_dir, settings.size))

    def run(self, strategy: Strategy, model: str, number: int) -> SweepRun:
        count = self._settings.sweep
        assert count is not None
        names, hidden = MODELS[model]
        sweep = ("sweep", "submit", *self._options(strategy, names[0], hidden),
                 "--algorithm", "random", "--trials", str(count),
                 "--space", f"model={','.join(names)}", "--space", "model-seed=int:1:1000000",
                 "--metric", "loss", "--test", "all", "--parallel", str(count))
        alone = {name: self._time((), "train", *self._options(strategy, name, hidden))
                 for name in names}
        shared = self._time((), *sweep)
        separate = self._time(_ALONE, *sweep)
        singles = [alone[name] for name in shared.models]
        return SweepRun(
            strategy=strategy.name, model=model, round=number, count=count,
            alone_seconds=statistics.fmean(one.seconds for one in singles),
            shared_seconds=shared.seconds, separate_seconds=separate.seconds,
            training_seconds=statistics.fmean(training_seconds(one.reports[0])
                                              for one in singles),
            # All models read the same.
            alone_bytes=bytes_of(singles[0].reports[0]),
            shared_bytes=total([bytes_of(report) for report in shared.reports]),
            separate_bytes=total([bytes_of(report) for report in separate.reports]))

    def _options(self, strategy: Strategy, name: str, hidden: Optional[str]) -> list[str]:
        options = {**self._settings.job_options(), "--model": name}
        if hidden is not None:
            options["--hidden"] = hidden
        if self._settings.io_depth and strategy.cached:
            options["--io-depth"] = str(self._settings.io_depth)
        return strategy.arguments(options, self._cache_bytes)

    def _time(self, flags: Sequence[str], *command: str) -> _Timed:
        page_cache.evict(self._files)
        with HearthDaemon(self._data_dir, flags=flags) as daemon:
            begin = time.monotonic()
            done = daemon.json(*command)
            seconds = time.monotonic() - begin
            jobs = ([done["id"]] if command[0] == "train"
                    else [job for trial in done["trials"] for job in trial["jobs"]])
            shown = [daemon.json("job", "show", job) for job in jobs]
            if command[0] == "train":
                daemon.call("job", "delete", *jobs)
            else:
                daemon.call("sweep", "delete", done["id"])
            self._drop_plans(daemon)
        return _Timed(seconds, [model_of(job) for job in shown],
                      [job["report"] for job in shown])

    @staticmethod
    def _drop_plans(daemon: HearthDaemon) -> None:
        """So that each of the three prepares for itself."""
        for plan in daemon.json("plan", "list")["plans"]:
            daemon.call("plan", "delete", plan["name"])
