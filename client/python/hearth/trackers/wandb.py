"""Weights & Biases: a run for each job or trial."""

from __future__ import annotations

from typing import Any, Optional

from hearth.trackers.tracker import Facts, Figures, RunInfo


class Wandb:
    """Logs to Weights & Biases: options as config, figures at the step of their epoch, the final
    report in the summary.

    `project` and other arguments are those of wandb.init: entity=, mode="offline", dir=, ... A job
    that is tracked again goes on with its run on the server. Offline no server can be asked: a
    new program logs all epochs, in a new folder with the id of the run.
    """

    def __init__(self, project: str = "hearth", **settings: Any) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ImportError("hearth.trackers.Wandb needs wandb: pip install wandb") from error
        self._wandb: Any = wandb
        self._project = project
        self._settings = settings
        self._last_epochs: dict[str, int] = {}

    def begin(self, info: RunInfo) -> WandbRun:
        """The run of this job or trial."""
        run = self._wandb.init(**{
            "project": self._project, "id": info.identity, "name": info.name,
            "group": info.group or None, "config": dict(info.options),
            "tags": [f"{name}:{value}"[:64] for name, value in info.tags.items() if value],
            "resume": "allow", "reinit": "create_new", **self._settings})
        last = max(int(run.summary.get("epoch") or 0), self._last_epochs.get(info.identity, 0))
        return WandbRun(run, info.identity, last, self._last_epochs)


class WandbRun:
    """One run of Weights & Biases, whose summary tells by `epoch` how far it is."""

    def __init__(self, run: Any, identity: str, last_epoch: int,
                 last_epochs: dict[str, Any]) -> None:
        self._run = run
        self._identity = identity
        self._last_epochs: dict[str, Optional[int]] = last_epochs
        self.last_epoch = last_epoch

    def log_epoch(self, epoch: int, figures: Figures) -> None:
        self._run.log({**figures, "epoch": epoch}, step=epoch)
        self.last_epoch = epoch
        self._last_epochs[self._identity] = epoch

    def end(self, state: str, facts: Facts) -> None:
        self._run.summary.update({**facts, "state": state})
        self._run.finish(exit_code=0 if state != "FAILED" else 1)
