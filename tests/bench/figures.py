"""What one run did: read from its job's report and from the OS."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any, Callable, Optional, Sequence

_TRAINER = "train"


@dataclasses.dataclass(frozen=True)
class Epoch:
    """Training passes alone. None = the report does not know."""

    seconds: float
    rows_needed: int
    bytes_needed: int
    bytes_read: Optional[int]
    read_ops: Optional[int]
    rows_read: Optional[int]
    io_wait_seconds: Optional[float]
    trainer_idle: Optional[float]


@dataclasses.dataclass(frozen=True)
class Run:
    """One job of one strategy in one round; without epochs if it failed."""

    strategy: str
    model: str
    cache_share: float
    cache_bytes: int
    round: int
    memory_limit_bytes: Optional[int]
    epochs: tuple[Epoch, ...] = ()
    loss_digest: str = ""
    # None = the strategy prepares nothing.
    prepare_seconds: Optional[float] = None
    peak_memory_bytes: Optional[int] = None
    cgroup_peak_bytes: Optional[int] = None
    left_in_page_cache_bytes: int = 0
    failure: Optional[str] = None

    @property
    def steady(self) -> Sequence[Epoch]:
        """The epochs after the first, which starts with cold caches."""
        return self.epochs[1:] or self.epochs

    def median(self, of: Callable[[Epoch], Optional[float]]) -> Optional[float]:
        """Over the steady epochs; None if one of them does not know."""
        values = [of(epoch) for epoch in self.steady]
        known = [value for value in values if value is not None]
        return statistics.median(known) if known and len(known) == len(values) else None


def trainer_idle(stages: Sequence[dict[str, Any]]) -> Optional[float]:
    """The share of the trainer's time in which it waits for batches."""
    for stage in stages:
        if stage["name"] == _TRAINER:
            whole = (stage["busy_seconds"] + stage["starved_seconds"] + stage["blocked_seconds"])
            return stage["starved_seconds"] / whole if whole > 0 else None
    return None


def prepare_seconds_of(report: dict[str, Any]) -> Optional[float]:
    """From a train job's report: seconds until all its plans were made or found, the partition of
    its seeds among them."""
    preparations = [*report.get("preparations", ()),
                    *([report["partition"]] if report.get("partition") else ())]
    return sum(each["seconds"] for each in preparations) if preparations else None


def epoch_of(report: dict[str, Any]) -> Epoch:
    """From one entry of a train job's report."""
    return Epoch(seconds=report["seconds"], rows_needed=report["rows_needed"],
                 bytes_needed=report["bytes_needed"], bytes_read=report["bytes_read"],
                 read_ops=report["read_ops"], rows_read=report.get("rows_read"),
                 io_wait_seconds=report["io_wait_seconds"],
                 trainer_idle=trainer_idle(report["stages"]))
