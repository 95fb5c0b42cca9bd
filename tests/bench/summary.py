"""From the figures of runs to those of strategies: ratios within a round, then medians."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Callable, Iterable, Optional, Sequence, TypeVar

from figures import Epoch, Run
from fio import DiskRate, DiskRates
from strategies import GINEX, MEMORY, is_in_memory, is_mmap

Number = Optional[float]
Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Summary:
    """Of one strategy with one model and cache. None = cannot be known."""

    strategy: str
    model: str
    cache_share: float
    cache_bytes: int
    memory_limit_bytes: Optional[int]
    runs: int
    failures: tuple[str, ...]
    epoch_seconds: Number = None
    first_epoch_seconds: Number = None
    # Before the first epoch, once.
    prepare_seconds: Number = None
    rows_per_second: Number = None
    bytes_needed: Number = None
    bytes_read: Number = None
    read_ops: Number = None
    # Seconds of fio for a read per needed row, by the epoch's seconds: above 1
    # a cache or merged reads beat reading each row.
    disk_limit_ratio: Number = None
    # Bytes read a second, by fio's with reads of a row, or of a page where the
    # kernel decides what is read.
    disk_bytes_ratio: Number = None
    # Bytes read, by those of an optimal cache's misses.
    optimal_ratio: Number = None
    trainer_idle: Number = None
    peak_memory_bytes: Number = None
    cgroup_peak_bytes: Number = None
    # How many times faster than the faster mmap, under the same memory.
    speed_to_mmap: Number = None
    # The epoch's seconds, by those with all features in memory.
    tax_to_memory: Number = None


def ratio(of: Number, to: Number) -> Number:
    return of / to if of is not None and to is not None and to > 0 else None


def median(values: Iterable[Number]) -> Number:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _seconds(run: Run) -> Number:
    return run.median(lambda epoch: epoch.seconds)


class Round:
    """The runs of one round with one model and cache, and what they are compared with."""

    def __init__(self, runs: Iterable[Run], disk: Optional[DiskRates]) -> None:
        self._runs = {run.strategy: run for run in runs if run.failure is None}
        self._disk = disk

    def mmap_seconds(self) -> Number:
        return min((seconds for name, run in self._runs.items()
                    if is_mmap(name) and (seconds := _seconds(run)) is not None), default=None)

    def memory_seconds(self) -> Number:
        run = self._runs.get(MEMORY)
        return _seconds(run) if run else None

    def optimal_bytes(self) -> Number:
        """Misses of ginex's cache, which is optimal within a superbatch."""
        run = self._runs.get(GINEX)
        return run.median(lambda epoch: _row_bytes_of(epoch.rows_read, epoch)) if run else None

    def figures(self, name: str) -> dict[str, Number]:
        """Fields of a Summary, of this round alone; empty if the strategy failed."""
        run = self._runs.get(name)
        if run is None:
            return {}
        seconds = _seconds(run)
        bytes_read = run.median(lambda epoch: epoch.bytes_read)
        rows = run.median(lambda epoch: epoch.rows_needed)
        read_ops = run.median(lambda epoch: epoch.read_ops)
        disk = None if is_in_memory(name) else self._disk
        row_rate = disk.row.reads_per_second if disk else None
        byte_rate = _read_alike(disk, read_ops).bytes_per_second if disk else None
        optimal = None if is_in_memory(name) else self.optimal_bytes()
        return {
            "epoch_seconds": seconds,
            "first_epoch_seconds": run.epochs[0].seconds if run.epochs else None,
            "prepare_seconds": run.prepare_seconds,
            "rows_per_second": ratio(rows, seconds),
            "bytes_needed": run.median(lambda epoch: epoch.bytes_needed),
            "bytes_read": bytes_read,
            "read_ops": read_ops,
            "disk_limit_ratio": ratio(ratio(rows, row_rate), seconds),
            "disk_bytes_ratio": ratio(ratio(bytes_read, seconds), byte_rate),
            "optimal_ratio": ratio(bytes_read, optimal),
            "trainer_idle": run.median(lambda epoch: epoch.trainer_idle),
            "peak_memory_bytes": run.peak_memory_bytes,
            "cgroup_peak_bytes": run.cgroup_peak_bytes,
            "speed_to_mmap": ratio(self.mmap_seconds(), seconds),
            "tax_to_memory": ratio(seconds, self.memory_seconds()),
        }


def _read_alike(disk: DiskRates, read_ops: Number) -> DiskRate:
    """Operations that are not known are page faults."""
    return disk.page if read_ops is None else disk.row


def _row_bytes_of(rows: Optional[int], epoch: Epoch) -> Number:
    row_bytes = ratio(epoch.bytes_needed, epoch.rows_needed)
    return None if rows is None or row_bytes is None else rows * row_bytes


def _distinct(values: Iterable[Value]) -> list[Value]:
    return list(dict.fromkeys(values))


def _summarize_strategy(runs: Sequence[Run], rounds: Sequence[Round]) -> Summary:
    first = runs[0]
    per_round = [figures for each in rounds if (figures := each.figures(first.strategy))]
    medians = {key: median(figures[key] for figures in per_round)
               for key in (per_round[0] if per_round else ())}
    return Summary(first.strategy, first.model, first.cache_share, first.cache_bytes,
                   first.memory_limit_bytes, len(runs),
                   tuple(_distinct(run.failure for run in runs if run.failure)), **medians)


def summarize(runs: Sequence[Run], disk: dict[int, DiskRates]) -> list[Summary]:
    """One entry per cache, model and strategy, in the order in which they first ran."""
    summaries = []
    for cache, model in _distinct((run.cache_share, run.model) for run in runs):
        group = [run for run in runs if (run.cache_share, run.model) == (cache, model)]
        rounds = [Round((run for run in group if run.round == number), disk.get(number))
                  for number in _distinct(run.round for run in group)]
        for name in _distinct(run.strategy for run in group):
            summaries.append(_summarize_strategy(
                [run for run in group if run.strategy == name], rounds))
    return summaries


def disagreements(runs: Sequence[Run], is_ordered: Callable[[str], bool],
                  order_of: Callable[[str], str]) -> list[str]:
    """Strategies with the same order of seeds that did not train on the same batches, so that
    nothing can be compared."""
    found = []
    for model, order in _distinct((run.model, order_of(run.strategy)) for run in runs):
        done = [run for run in runs if run.failure is None
                and (run.model, order_of(run.strategy)) == (model, order)]
        rows = {tuple(epoch.rows_needed for epoch in run.epochs) for run in done}
        digests = {run.loss_digest for run in done if is_ordered(run.strategy)}
        for what, values in (("rows needed", rows), ("loss digests", digests)):
            if len(values) > 1:
                found.append(f"model {model}, {order} order: runs differ in their {what}")
    return found
