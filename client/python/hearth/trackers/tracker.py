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
    """Name for people: "train-7", or "sweep-2 trial 3"."""
    identity: str
    """Hexadecimal id, the same for a job or trial in every program, and unique."""
    group: str
    """Id of the sweep; empty for a job outside sweeps."""
    options: Mapping[str, str]
    """All options, by their names as keywords."""
    tags: Mapping[str, str]


class Run(Protocol):
    """One run of a tracker. Calls come from one thread."""

    @property
    def last_epoch(self) -> int:
        """The last epoch of the run, which may be an earlier program's; 0 = none."""

    def log_epoch(self, epoch: int, figures: Figures) -> None:
        """Logs the figures of an epoch at the step `epoch`. Epochs ascend."""

    def end(self, state: str, facts: Facts) -> None:
        """Logs the final state ("SUCCEEDED") and facts of the final report; ends the run."""


class Tracker(Protocol):
    """Begins runs."""

    def begin(self, info: RunInfo) -> Run:
        """The run of a job or trial: its existing run, or a new one with these options."""
