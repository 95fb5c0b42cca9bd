"""TensorBoard: a folder of events for each job or trial."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any, Mapping, Union

from hearth.trackers.tracker import Facts, Figures, RunInfo

_STATE = "hearth.json"


class TensorBoard:
    """Writes event files below `folder`, one folder for each job or trial: options and the final
    report as text, figures as scalars at the step of their epoch. Uses tensorboardX, or else
    torch.utils.tensorboard.

    `hearth.json` in the folder has the job and its last logged epoch, so that a job that is
    tracked again goes on in its folder.
    """

    def __init__(self, folder: Union[str, os.PathLike[str]]) -> None:
        self._folder = Path(folder)
        self._writer = _writer()

    def begin(self, info: RunInfo) -> TensorBoardRun:
        """The run of this job or trial."""
        folder = self._folder / info.name.replace(" ", "-")
        if _read_state(folder).get("identity", info.identity) != info.identity:
            # A job of another daemon has that name.
            folder = folder.with_name(f"{folder.name}-{info.identity[:8]}")
        last_epoch = int(_read_state(folder).get("last_epoch", 0))
        # Writers name files by the second: two in one second would share a file.
        writer = self._writer(str(folder), filename_suffix=f".{uuid.uuid4().hex[:8]}")
        run = TensorBoardRun(writer, folder, info.identity, last_epoch)
        if last_epoch == 0:
            run.add_text("options", info.options)
        return run


class TensorBoardRun:
    """One folder of events."""

    def __init__(self, writer: Any, folder: Path, identity: str, last_epoch: int) -> None:
        self._made = writer
        self._folder = folder
        self._identity = identity
        self.last_epoch = last_epoch

    def log_epoch(self, epoch: int, figures: Figures) -> None:
        for name, value in figures.items():
            self._made.add_scalar(name, value, epoch)
        self._made.flush()
        self.last_epoch = epoch
        state = {"identity": self._identity, "last_epoch": epoch}
        # In this order, a crash between the two logs the epoch again instead of losing it.
        written = self._folder / f"{_STATE}.new"
        written.write_text(json.dumps(state), encoding="utf-8")
        written.replace(self._folder / _STATE)

    def end(self, state: str, facts: Facts) -> None:
        for name, value in facts.items():
            if isinstance(value, float):
                self._made.add_scalar(name, value, self.last_epoch)
        self.add_text("report", {"state": state, **{name: str(value)
                                                    for name, value in facts.items()}})
        self._made.close()

    def add_text(self, name: str, values: Mapping[str, str]) -> None:
        """A table of names and values."""
        rows = "\n".join(f"| {key} | {value} |" for key, value in values.items())
        self._made.add_text(name, f"| | |\n|---|---|\n{rows}", 0)


def _writer() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("hearth.trackers.TensorBoard needs tensorboardX: "
                              "pip install tensorboardX") from error
    return SummaryWriter


def _read_state(folder: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads((folder / _STATE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return state
