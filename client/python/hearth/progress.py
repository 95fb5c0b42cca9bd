"""What people see of a job that they follow: a bar, or lines."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Optional, TextIO

from hearth.jobs import JobEvent, Progressed


class Progress:
    """Shows the events of one job: as a bar by tqdm in terminals and notebooks, with the other
    events as lines above it; as lines alone without tqdm, and where the output is a file."""

    def __init__(self, title: str, output: Optional[TextIO] = None) -> None:
        self._title = title
        self._output = output or sys.stderr
        self._bar: Any = _new_bar(title, self._output)
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
        elif self._bar is not None:
            self._move(event)

    def _move(self, event: Progressed) -> None:
        phase = f"{self._title} {event.phase}"
        if event.epoch:
            phase = f"{self._title} epoch {event.epoch}/{event.epochs} {event.phase}"
        if phase != self._phase:
            self._phase = phase
            self._bar.reset(total=event.total or None)
            self._bar.set_description(phase, refresh=False)
        self._bar.n = event.done
        if event.loss is not None:
            self._bar.set_postfix(loss=f"{event.loss:.4f}", refresh=False)
        self._bar.refresh()

    def _write(self, line: str) -> None:
        if self._bar is not None:
            type(self._bar).write(line, file=self._output)
        else:
            print(line, file=self._output, flush=True)


class _Nothing(Progress):
    def __init__(self) -> None:
        self._bar = None

    def take(self, event: JobEvent) -> None:
        pass


def _new_bar(title: str, output: TextIO) -> Any:
    """A bar of tqdm; None without tqdm, and where nobody watches the output change."""
    in_notebook = hasattr(sys.modules.get("IPython"), "get_ipython") and "ipykernel" in sys.modules
    if not (in_notebook or output.isatty()):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=title, file=output, leave=False, unit="")
