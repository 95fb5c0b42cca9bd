"""Runs one job of one strategy: cold page cache, fresh cgroup, fresh daemon."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Optional

import dataset
import page_cache
from figures import Run, epoch_of, prepare_seconds_of
from hearth_daemon import HearthDaemon, RunFailed
from memory_cgroup import MemoryCgroup, Usage
from settings import Settings
from strategies import Strategy


@dataclasses.dataclass(frozen=True)
class Task:
    """A run to be made."""

    strategy: Strategy
    model: str
    cache_share: float
    cache_bytes: int
    round: int
    memory_limit_bytes: Optional[int]  # None = none


class Runner:
    """REQUIRES: the dataset is in the data directory."""

    def __init__(self, settings: Settings, data_dir: Path, use_cgroups: bool) -> None:
        self._settings = settings
        self._data_dir = data_dir
        self._use_cgroups = use_cgroups
        self._files = dataset.array_files(dataset.folder_of(data_dir, settings.size))

    def run(self, task: Task) -> Run:
        """A failure is told in the result, too: the other strategies go on."""
        left = page_cache.evict(self._files)
        if self._use_cgroups:
            with MemoryCgroup(task.memory_limit_bytes) as cgroup:
                report, failure = self._try(task, cgroup)
                usage = cgroup.usage()
        else:
            report, failure = self._try(task, None)
            usage = Usage(peak_bytes=None, out_of_memory_kills=0)
        if failure and usage["out_of_memory_kills"]:
            failure = f"killed at the memory limit ({failure})"
        return Run(
            strategy=task.strategy.name, model=task.model, cache_share=task.cache_share,
            cache_bytes=task.cache_bytes, round=task.round,
            memory_limit_bytes=task.memory_limit_bytes if self._use_cgroups else None,
            epochs=tuple(map(epoch_of, report.get("epochs", []))),
            loss_digest=report.get("loss_digest", ""),
            prepare_seconds=prepare_seconds_of(report),
            peak_memory_bytes=report.get("peak_memory_bytes"),
            cgroup_peak_bytes=usage["peak_bytes"], left_in_page_cache_bytes=left,
            failure=failure)

    def _try(self, task: Task,
             cgroup: Optional[MemoryCgroup]) -> tuple[dict[str, Any], Optional[str]]:
        """The report, or an empty one and why."""
        try:
            return self._train(task, cgroup), None
        except RunFailed as error:
            return {}, str(error)

    def _train(self, task: Task, cgroup: Optional[MemoryCgroup]) -> dict[str, Any]:
        options = {**self._settings.job_options(), "--model": task.model}
        if self._settings.io_depth and task.strategy.cached:
            options["--io-depth"] = str(self._settings.io_depth)
        with HearthDaemon(self._data_dir, cgroup) as daemon:
            job = daemon.json("train", *task.strategy.arguments(options, task.cache_bytes))
            shown = daemon.json("job", "show", job["id"])
            daemon.call("job", "delete", job["id"])
        report: dict[str, Any] = shown["report"]
        return report
