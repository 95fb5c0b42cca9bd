"""Interface of trackers of experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Protocol, Union

Figures = Mapping[str, float]
Facts = Mapping[str, Union[str, float]]


@dataclass(frozen=True)
class RunInfo:
    """Subject of a run: a job, or a trial of a sweep."""

    name: str
    """"train-7", or "sweep-2 trial 3"."""
    identity: str
    """Names the same job or trial in every program, and no other one: hexadecimal."""
    group: str
    """The sweep; empty for a job of none."""
    options: Mapping[str, str]
    """All options, by their names as keywords."""
    tags: Mapping[str, str]


class Run(Protocol):
    """One run of a tracker. Calls come from one thread."""

    @property
    def last_epoch(self) -> int:
        """The last epoch that the run has, by an earlier program perhaps; 0 = none."""

    def log_epoch(self, epoch: int, figures: Figures) -> None:
        """Logs the figures of an epoch at the step `epoch`. Epochs ascend."""

    def end(self, state: str, facts: Facts) -> None:
        """The job or trial has ended, in this state ("SUCCEEDED"); the facts are of its final
        report."""


class Tracker(Protocol):
    """Begins runs."""

    def begin(self, info: RunInfo) -> Run:
        """The run of a job or trial: the one that it has already, or a new one with these
        options."""
