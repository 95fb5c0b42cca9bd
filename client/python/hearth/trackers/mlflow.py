"""MLflow: a run for each job or trial."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from hearth.trackers.tracker import Facts, Figures, RunInfo

_IDENTITY = "hearth.identity"
_EPOCH = "epoch"
_PARAMS_PER_CALL = 100


class Mlflow:
    """Logs to MLflow: options as parameters, figures as metrics at the step of their epoch, the
    final report as metrics and tags.

    `tracking_uri` ("file:/data/mlruns", "http://mlflow:5000") and `experiment` default to
    MLflow's own. A job that is tracked again goes on with its run.
    """

    def __init__(self, tracking_uri: Optional[str] = None, experiment: str = "hearth", *,
                 tags: Optional[Mapping[str, str]] = None) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise ImportError(
                "hearth.trackers.Mlflow needs mlflow: pip install mlflow-skinny") from error
        self._client = mlflow.MlflowClient(tracking_uri)
        self._tags = dict(tags or {})
        found = self._client.get_experiment_by_name(experiment)
        self._experiment: str = (found.experiment_id if found is not None
                                 else self._client.create_experiment(experiment))

    def begin(self, info: RunInfo) -> MlflowRun:
        """The run of this job or trial."""
        found = self._client.search_runs(
            [self._experiment], f"tags.`{_IDENTITY}` = '{info.identity}'", max_results=1)
        if found:
            run = found[0]
            self._client.update_run(run.info.run_id, status="RUNNING")
            return MlflowRun(self._client, run.info.run_id,
                             int(run.data.metrics.get(_EPOCH, 0)))
        tags = {**self._tags, **info.tags, _IDENTITY: info.identity}
        if info.group:
            tags["hearth.group"] = info.group
        run = self._client.create_run(self._experiment, run_name=info.name, tags=tags)
        self._log_params(run.info.run_id, info.options)
        return MlflowRun(self._client, run.info.run_id, 0)

    def _log_params(self, run: str, options: Mapping[str, str]) -> None:
        from mlflow.entities import Param
        params = [Param(name, value) for name, value in options.items()]
        for first in range(0, len(params), _PARAMS_PER_CALL):
            self._client.log_batch(run, params=params[first:first + _PARAMS_PER_CALL])


class MlflowRun:
    """One run of MLflow, whose metric `epoch` tells how far it is."""

    def __init__(self, client: Any, id: str, last_epoch: int) -> None:
        self._client = client
        self.id = id
        self.last_epoch = last_epoch

    def log_epoch(self, epoch: int, figures: Figures) -> None:
        self._log({**figures, _EPOCH: float(epoch)}, epoch)
        self.last_epoch = epoch

    def end(self, state: str, facts: Facts) -> None:
        self._log({name: value for name, value in facts.items() if isinstance(value, float)},
                  self.last_epoch)
        for name, value in facts.items():
            if isinstance(value, str):
                self._client.set_tag(self.id, f"hearth.{name}", value)
        self._client.set_tag(self.id, "hearth.state", state)
        ends = {"FAILED": "FAILED", "CANCELLED": "KILLED", "STOPPED": "KILLED"}
        self._client.set_terminated(self.id, ends.get(state, "FINISHED"))

    def _log(self, figures: Figures, step: int) -> None:
        import time

        from mlflow.entities import Metric
        now = int(time.time() * 1000)
        self._client.log_batch(self.id, metrics=[Metric(name, value, now, step)
                                                 for name, value in figures.items()])
