"""From the events of jobs and sweeps to the runs of trackers."""

from __future__ import annotations

import hashlib
import statistics
from typing import Any, Optional, Sequence

from hearth.jobs import Epoch, EpochFinished, JobEvent, JobRecord, TrainReport, epoch_from
from hearth.options.specs import job_options
from hearth.sweeps import EpochsReported, SweepEvent, SweepRecord, Trial
from hearth.trackers.tracker import Facts, Figures, Run, RunInfo, Tracker
from hearth.v1 import jobs_pb2

_READING = ("rows_needed", "bytes_needed", "rows_read", "bytes_read", "read_ops",
            "io_wait_seconds")


def figures_of(epoch: Epoch) -> dict[str, float]:
    """Figures of an epoch to be logged; unknown ones are left out."""
    figures = {"loss": epoch.loss, "epoch_seconds": epoch.seconds}
    if epoch.valid_metric is not None:
        figures[f"valid_{epoch.metric}"] = epoch.valid_metric
    for name in _READING:
        value = getattr(epoch, name)
        if value is not None:
            figures[f"io/{name}"] = float(value)
    for stage in epoch.stages:
        for kind in ("busy", "starved", "blocked"):
            figures[f"stages/{stage.name}/{kind}_seconds"] = getattr(stage, f"{kind}_seconds")
    figures.update({f"phases/{name}_seconds": value for name, value in epoch.phases.items()})
    if epoch.rows_needed:
        figures.update({f"hit_ratio/{level}": rows / epoch.rows_needed
                        for level, rows in epoch.hits.items()})
    return figures


def facts_of(report: Optional[TrainReport]) -> dict[str, Any]:
    """Facts of a final report to be logged."""
    if report is None:
        return {}
    facts: dict[str, Any] = {"kept_epoch": float(report.kept_epoch),
                             "peak_memory_bytes": float(report.peak_memory_bytes),
                             "resumes": float(report.resumes),
                             "loss_digest": report.loss_digest}
    if report.test_metric is not None:
        facts[f"test_{report.metric}"] = report.test_metric
    return facts


class _Runs:
    """The runs of one job or trial, one for each tracker."""

    def __init__(self, info: RunInfo, trackers: Sequence[Tracker]) -> None:
        self._runs: list[Run] = [tracker.begin(info) for tracker in trackers]

    def log(self, epoch: int, figures: Figures) -> None:
        for run in self._runs:
            if epoch > run.last_epoch:
                run.log_epoch(epoch, figures)

    def end(self, state: str, facts: Facts) -> None:
        for run in self._runs:
            run.end(state, facts)


class JobRuns:
    """Logs a job to trackers."""

    def __init__(self, job: JobRecord, trackers: Sequence[Tracker]) -> None:
        tags = {"hearth.job": job.id, "hearth.kind": job.kind, "hearth.dataset": job.dataset,
                "hearth.owner": job.owner}
        info = RunInfo(job.id, _identity(job.id, job.create_time), job.sweep, job.options, tags)
        self._runs = _Runs(info, trackers)

    def take(self, event: JobEvent) -> None:
        if isinstance(event, EpochFinished):
            self._runs.log(event.epoch.epoch, figures_of(event.epoch))

    def end(self, job: JobRecord) -> None:
        error = {"error": job.error.message} if job.error is not None else {}
        self._runs.end(job.state.value, {**facts_of(job.report), **error})


class SweepRuns:
    """Logs the trials of a sweep to trackers: an epoch when all replicas of a trial have finished
    it, with the means of their figures."""

    def __init__(self, sweep: SweepRecord, trackers: Sequence[Tracker]) -> None:
        self._sweep = sweep
        self._trackers = trackers
        self._runs: dict[int, _Runs] = {}
        self._logged: dict[int, int] = {}
        self._epochs: dict[int, dict[int, dict[int, Figures]]] = {}
        self._num_seeds = max(sweep.message.spec.seeds, 1)

    def wanted(self, event: SweepEvent) -> list[str]:
        """Ids of jobs whose reports have epochs that are not logged yet."""
        if not isinstance(event, EpochsReported):
            return []
        return list(dict.fromkeys(one.job for one in event.results
                                  if one.epoch > self._seen(one.trial, one.replica)))

    def take(self, job: jobs_pb2.Job) -> None:
        """Takes the report of a job so far."""
        replicas = self._epochs.setdefault(job.trial, {})
        figures = replicas.setdefault(job.replica, {})
        for message in job.report.train.epochs:
            figures.setdefault(message.epoch, figures_of(epoch_from(message)))
        if job.trial not in self._runs:
            self._runs[job.trial] = self._begin(job)
        while len(replicas) == self._num_seeds:
            epoch = self._logged.get(job.trial, 0) + 1
            if not all(epoch in one for one in replicas.values()):
                break
            self._runs[job.trial].log(epoch, _means([one[epoch] for one in replicas.values()]))
            self._logged[job.trial] = epoch

    def end(self, sweep: SweepRecord) -> None:
        for trial in sweep.trials:
            if trial.number in self._runs:
                self._runs[trial.number].end(trial.state.value, _facts(trial, sweep))

    def _seen(self, trial: int, replica: int) -> int:
        return max(self._epochs.get(trial, {}).get(replica, {}), default=0)

    def _begin(self, job: jobs_pb2.Job) -> _Runs:
        name = f"{self._sweep.id} trial {job.trial}"
        tags = {"hearth.sweep": self._sweep.id, "hearth.trial": str(job.trial),
                "hearth.dataset": self._sweep.dataset, "hearth.job": job.id}
        identity = _identity(name, self._sweep.create_time)
        return _Runs(RunInfo(name, identity, self._sweep.id, job_options(job.spec), tags),
                     self._trackers)


def _means(replicas: Sequence[Figures]) -> dict[str, float]:
    names = set(replicas[0]).intersection(*replicas[1:])
    return {name: statistics.fmean(one[name] for one in replicas) for name in sorted(names)}


def _facts(trial: Trial, sweep: SweepRecord) -> Facts:
    facts: dict[str, Any] = {"rank": float(trial.rank), "epochs": float(trial.epochs)}
    if trial.metric is not None:
        facts[f"best_{sweep.metric}"] = trial.metric
    if trial.test_metric is not None:
        facts[f"test_{sweep.metric}"] = trial.test_metric
    if trial.reason:
        facts["reason"] = trial.reason
    return facts


def _identity(name: str, time: Any) -> str:
    """Identity by name and time of creation, since daemons give the same names."""
    return hashlib.sha256(f"{name}\n{time}".encode()).hexdigest()[:32]
