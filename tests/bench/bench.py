"""The order of the work: dataset, disk, memory limits, then rounds of runs."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Iterator, Optional

import dataset
from disk import BlockDevice, block_device_of
from figures import Run
from fio import (PAGE_BYTES, SECTOR_BYTES, DiskRates, Fio, FioError, Profile,
                 random_block)
from hearth_daemon import HearthDaemon
from memory_cgroup import why_no_cgroup
from memory_limit import automatic_limit, features_fit
from runner import Runner, Task
from settings import Settings
from sizes import format_bytes
from strategies import ALL, MEMORY, Choice, Strategy

_SMALL_BLOCKS = (SECTOR_BYTES, PAGE_BYTES)


def say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass
class Outcome:
    """All that was found out."""

    device: Optional[BlockDevice] = None
    profile: Optional[Profile] = None
    disk: dict[int, DiskRates] = dataclasses.field(default_factory=dict)
    runs: list[Run] = dataclasses.field(default_factory=list)
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)


def make_dataset(settings: Settings, data_dir: Path) -> None:
    """Generates the settings' graph, unless it is there."""
    size = settings.size
    settings.work.mkdir(parents=True, exist_ok=True)
    if dataset.folder_of(data_dir, size).exists():
        say(f"dataset {size.name} is there")
        return
    dataset.check_room(settings.work, size)
    say(f"generating {size.name}: {size.nodes:,} nodes, {size.edges:,} edges, "
        f"{format_bytes(size.feature_bytes)} of features")
    with HearthDaemon(data_dir) as daemon:
        dataset.generate(daemon, size)


class Bench:
    """Made for one set of settings; run() once."""

    def __init__(self, settings: Settings, choice: Choice) -> None:
        self._settings = settings
        self._size = settings.size
        self._data_dir = settings.work / "data"
        self._folder = dataset.folder_of(self._data_dir, self._size)
        self._outcome = Outcome(left_out=dict(choice.left_out))
        self._strategies = [each for each in choice.chosen if self._can_run(each)]
        self._limits: dict[tuple[str, float], Optional[int]] = {}

    def run(self) -> Outcome:
        make_dataset(self._settings, self._data_dir)
        self._profile_disk()
        runner = self._make_runner()
        for number in range(1, self._settings.repeats + 1):
            self._measure_disk_again(number)
            self._run_round(runner, number)
        self._note_page_cache()
        return self._outcome

    def _run_round(self, runner: Runner, number: int) -> None:
        """What takes no cache runs once for all caches with the same memory limit."""
        uncached: dict[tuple[str, str, Optional[int]], Run] = {}
        for task in self._tasks(number):
            key = (task.strategy.name, task.model, task.memory_limit_bytes)
            if key in uncached:
                self._outcome.runs.append(dataclasses.replace(
                    uncached[key], cache_share=task.cache_share, cache_bytes=task.cache_bytes))
                continue
            run = runner.run(task)
            self._outcome.runs.append(run)
            say(self._line(run))
            if not task.strategy.cached:
                uncached[key] = run

    def _can_run(self, strategy: Strategy) -> bool:
        if strategy.name != MEMORY or features_fit(self._size.feature_bytes):
            return True
        self._outcome.left_out[MEMORY] = "the features do not fit in this machine's memory"
        return False

    def _note(self, text: str) -> None:
        say(text)
        self._outcome.notes.append(text)

    def _profile_disk(self) -> None:
        features = dataset.feature_file(self._folder)
        self._outcome.device = block_device_of(features)
        if self._outcome.device is None:
            self._note("the file system has no block device of its own")
        say("measuring the disk with fio")
        try:
            fio = Fio(features, self._settings.disk_seconds)
            blocks = (*_SMALL_BLOCKS, random_block(self._size.row_bytes))
            self._outcome.profile = fio.profile(blocks, self._settings.disk_depths)
        except FioError as error:
            self._note(f"no disk figures: {error}")

    def _measure_disk_again(self, number: int) -> None:
        """The disk may be shared: what it can do is measured in every round."""
        profile = self._outcome.profile
        if profile is None:
            return
        try:
            fio = Fio(dataset.feature_file(self._folder), self._settings.disk_seconds)
            rates = fio.rates(profile, self._size.row_bytes)
        except FioError as error:
            self._note(f"no disk figures of round {number}: {error}")
            return
        self._outcome.disk[number] = rates
        for rate in (rates.row, rates.page):
            say(f"round {number}: fio reads {rate.reads_per_second:,.0f} blocks of "
                f"{rate.block_bytes} B a second")

    def _make_runner(self) -> Runner:
        reason = why_no_cgroup() if self._settings.limit_memory else "--memory-limit none"
        if reason:
            self._note(f"memory is not limited: {reason}")
        # Brings the daemon's binary into the page cache, at no run's charge.
        HearthDaemon(self._data_dir).close()
        runner = Runner(self._settings, self._data_dir, use_cgroups=reason is None)
        for model in self._settings.models if reason is None else ():
            self._limit_memory(runner, model)
        return runner

    def _limit_memory(self, runner: Runner, model: str) -> None:
        """Fills in the limits of a model, for every cache."""
        fixed = self._settings.memory_limit
        peak = 0 if fixed else self._peak_of_memory(runner, model)
        for share in self._settings.caches:
            limit = fixed or automatic_limit(peak, self._size.feature_bytes,
                                             self._cache_bytes(share))
            self._limits[model, share] = limit
            say(f"model {model}, cache {share:.0%}: every strategy but memory gets "
                f"{format_bytes(limit)}")

    def _peak_of_memory(self, runner: Runner, model: str) -> int:
        if not features_fit(self._size.feature_bytes):
            raise SystemExit("the features do not fit in this machine's memory, so `memory` "
                             "cannot tell what a job needs: say --memory-limit SIZE")
        (memory,) = (each for each in ALL if each.name == MEMORY)
        run = runner.run(Task(memory, model, 0, 0, 0, None))
        if run.peak_memory_bytes is None:
            raise SystemExit(f"memory, model {model}: {run.failure}")
        return run.peak_memory_bytes

    def _cache_bytes(self, share: float) -> int:
        return round(self._size.feature_bytes * share)

    def _tasks(self, number: int) -> Iterator[Task]:
        for share in self._settings.caches:
            for model in self._settings.models:
                for strategy in self._strategies:
                    limit = self._limits.get((model, share)) if strategy.limited else None
                    yield Task(strategy, model, share, self._cache_bytes(share), number, limit)

    def _note_page_cache(self) -> None:
        left = max((run.left_in_page_cache_bytes for run in self._outcome.runs), default=0)
        if left:
            self._note(f"up to {format_bytes(left)} of the dataset stayed in the page cache "
                       "between runs; run as root to drop all of it")

    @staticmethod
    def _line(run: Run) -> str:
        what = f"round {run.round}, {run.strategy}, model {run.model}, cache {run.cache_share:.0%}"
        if run.failure:
            return f"{what}: FAILED: {run.failure}"
        return f"{what}: " + ", ".join(f"{epoch.seconds:.2f} s" for epoch in run.epochs)
