"""What people see of a job that they follow: a bar, or lines."""

from __future__ import annotations

import re
import sys
import warnings
from types import TracebackType
from typing import Any, Optional, TextIO

from hearth.jobs import JobEvent, Progressed

# What a terminal would obey: texts are others'.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Progress:
    """Shows the events of one job: as a bar by tqdm in terminals and notebooks, with the other
    events as lines above it; as lines alone without tqdm, and where the output is a file."""

    def __init__(self, title: str, output: Optional[TextIO] = None) -> None:
        self._title = title
        self._output = output or sys.stderr
        self._tqdm: Any = _tqdm_for(self._output)
        self._bar: Any = None
        self._phase = ""

    @staticmethod
    def none() -> Progress:
        """Shows nothing."""
        return _Nothing()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if self._bar is not None:
            self._bar.close()

    def take(self, event: JobEvent) -> None:
        """Shows one event."""
        if not isinstance(event, Progressed):
            self._write(f"{self._title}: {event}")
        elif self._tqdm is not None:
            self._move(event)

    def _move(self, event: Progressed) -> None:
        phase = f"{self._title} {event.phase}"
        if event.epoch:
            phase = f"{self._title} epoch {event.epoch}/{event.epochs} {event.phase}"
        if self._bar is None:
            self._bar = self._tqdm(file=self._output, leave=False, unit="")
        if phase != self._phase:
            self._phase = phase
            self._bar.reset(total=event.total or None)
            self._bar.set_description(phase, refresh=False)
        self._bar.n = event.done
        if event.loss is not None:
            self._bar.set_postfix(loss=f"{event.loss:.4f}", refresh=False)
        self._bar.refresh()

    def _write(self, line: str) -> None:
        line = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", line)
        if self._tqdm is not None:
            self._tqdm.write(line, file=self._output)
        else:
            print(line, file=self._output, flush=True)


class _Nothing(Progress):
    def __init__(self) -> None:
        super().__init__("")

    def take(self, event: JobEvent) -> None:
        pass


def _tqdm_for(output: TextIO) -> Any:
    """The class of bars; None without tqdm, and where nobody watches the output change."""
    if not ("ipykernel" in sys.modules or output.isatty()):
        return None
    try:
        with warnings.catch_warnings():
            # That a notebook without ipywidgets has bars of text is no news.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm
