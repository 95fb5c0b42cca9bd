"""Progress of a job or a sweep for people: a bar, or lines."""

from __future__ import annotations

import re
import sys
import warnings
from types import TracebackType
from typing import Any, Generic, Optional, TextIO, TypeVar

from hearth.jobs import JobEvent, Progressed
from hearth.rows import figure
from hearth.sweeps import ReplicaEnded, SweepEvent, SweepRecord, TrialAdded

# Characters that control a terminal: texts may come from other users.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_Event = TypeVar("_Event")
_AnyProgress = TypeVar("_AnyProgress", bound="Progress[Any]")


class Progress(Generic[_Event]):
    """Display of the events of one job or sweep: a bar by tqdm in terminals and notebooks, with
    other events as lines above it; only lines without tqdm, and if the output is a file. This
    base shows nothing."""

    def __init__(self, title: str, output: Optional[TextIO] = None) -> None:
        self._title = title
        self._output = output or sys.stderr
        self._tqdm: Any = _tqdm_for(self._output)
        self._bar: Any = None
        self._phase = ""

    def __enter__(self: _AnyProgress) -> _AnyProgress:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if self._bar is not None:
            self._bar.close()

    def take(self, event: _Event) -> None:
        """Shows one event."""

    def _show(self, description: str, done: int, total: Optional[int]) -> None:
        """Moves the bar; it restarts with each description."""
        if self._bar is None:
            self._bar = self._tqdm(file=self._output, leave=False, unit="")
        if description != self._phase:
            self._phase = description
            self._bar.reset(total=total)
            self._bar.set_description(description, refresh=False)
        self._bar.total = total
        self._bar.n = done

    def _write(self, line: str) -> None:
        line = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", f"{self._title}: {line}")
        if self._tqdm is not None:
            self._tqdm.write(line, file=self._output)
        else:
            print(line, file=self._output, flush=True)


class JobProgress(Progress[JobEvent]):
    """Shows a job: the bar is for its current phase."""

    def take(self, event: JobEvent) -> None:
        if not isinstance(event, Progressed):
            self._write(str(event))
        elif self._tqdm is not None:
            self._move(event)

    def _move(self, event: Progressed) -> None:
        phase = f"{self._title} {event.phase}"
        if event.epoch:
            phase = f"{self._title} epoch {event.epoch}/{event.epochs} {event.phase}"
        self._show(phase, event.done, event.total or None)
        if event.loss is not None:
            self._bar.set_postfix(loss=figure(event.loss), refresh=False)
        self._bar.refresh()


class SweepProgress(Progress[SweepEvent]):
    """Shows a sweep: the bar counts ended jobs among the jobs of all trials so far."""

    def __init__(self, sweep: SweepRecord, output: Optional[TextIO] = None) -> None:
        super().__init__(sweep.id, output)
        self._num_seeds = max(sweep.message.spec.seeds, 1)
        # Most searches have all their trials from the beginning.
        self._trained = {one.number for one in sweep.trials if not one.same_as}
        self._ended: set[tuple[int, int]] = set()

    def take(self, event: SweepEvent) -> None:
        for line in str(event).splitlines():
            self._write(line)
        stopped = [one for one in event.decisions if one.action == "STOP"]
        # All replicas of a trial stop together.
        for trial, reason in dict.fromkeys((one.trial, one.reason) for one in stopped):
            self._write(f"trial {trial} is stopped: {reason}")
        self._ended |= {(one.trial, one.replica) for one in stopped}
        if isinstance(event, TrialAdded):
            self._trained |= set() if event.same_as else {event.trial}
        if isinstance(event, ReplicaEnded):
            self._ended.add((event.trial, event.replica))
        if self._tqdm is not None:
            self._show(f"{self._title} jobs", len(self._ended), len(self._trained) * self._num_seeds)
            self._bar.refresh()


def _tqdm_for(output: TextIO) -> Any:
    """tqdm's class of bars; None without tqdm, and if the output is a file."""
    if not ("ipykernel" in sys.modules or output.isatty()):
        return None
    try:
        with warnings.catch_warnings():
            # Hides the warning that a notebook without ipywidgets has bars of text.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm
