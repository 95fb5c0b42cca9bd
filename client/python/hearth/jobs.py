"""Jobs, as the daemon tells of them: what they are, what they did, and their events."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Mapping, Optional, Union

import grpc

from hearth.errors import code_of
from hearth.options.specs import job_options
from hearth.rows import Rows, optional_time, same_fields, time_of
from hearth.v1 import jobs_pb2, report_pb2


class JobState(str, enum.Enum):
    """See jobs.proto."""

    QUEUED = "QUEUED"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    WAITING = "WAITING"

    @property
    def has_ended(self) -> bool:
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True)
class JobError:
    """The error by which a job failed."""

    code: grpc.StatusCode
    message: str


@dataclass(frozen=True)
class Epoch:
    """One finished epoch; more is in `message`, which report.proto explains."""

    epoch: int
    loss: float
    metric: str
    valid_metric: Optional[float]
    seconds: float
    batches: int
    rows_needed: int
    bytes_needed: int
    rows_read: Optional[int]
    bytes_read: Optional[int]
    read_ops: Optional[int]
    io_wait_seconds: Optional[float]
    message: report_pb2.EpochReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class TrainReport:
    """What a train job did so far; whole once it has succeeded."""

    epochs: Rows[Epoch]
    metric: str
    test_metric: Optional[float]
    kept_epoch: int
    loss_digest: str
    model_path: str
    peak_memory_bytes: int
    memory_bound_bytes: int
    first_batch_seconds: Optional[float]
    warm_start: bool
    resumes: int
    exact: bool
    message: report_pb2.TrainReport = field(repr=False, compare=False)

    @property
    def best_epoch(self) -> Optional[Epoch]:
        """The first one with the best metric of validation; None without any. NaN, of a metric
        that is not defined, is never the best."""
        judged = [epoch for epoch in self.epochs
                  if epoch.valid_metric is not None and not math.isnan(epoch.valid_metric)]
        least_is_best = self.metric == "mse"
        return min(judged, default=None, key=lambda epoch: (
            (epoch.valid_metric or 0.0) if least_is_best else -(epoch.valid_metric or 0.0)))


@dataclass(frozen=True)
class EvaluateReport:
    """What a test of a trained model gave."""

    metric: str
    test_metric: Optional[float]
    """None without labeled test nodes."""
    kept_epoch: int
    peak_memory_bytes: int
    memory_bound_bytes: int
    warm_start: bool
    message: report_pb2.EvaluateReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class Job:
    """A job as it stands; more is in `message`, which jobs.proto explains."""

    id: str
    kind: str
    state: JobState
    options: Mapping[str, str]
    """The options of a train job, by their names as keywords of Client.train."""
    report: Optional[TrainReport]
    """Of a train job."""
    error: Optional[JobError]
    create_time: Optional[datetime]
    start_time: Optional[datetime]
    end_time: Optional[datetime]
    last_sequence: int
    priority: int
    waiting_reason: str
    sweep: str
    trial: int
    replica: int
    held: bool
    owner: str
    trace_id: str
    message: jobs_pb2.Job = field(repr=False, compare=False)


@dataclass(frozen=True)
class StateChanged:
    """The job entered a state."""

    sequence: int
    time: datetime
    state: JobState
    error: Optional[JobError]
    waiting_reason: str


@dataclass(frozen=True)
class Progressed:
    """The job goes on."""

    sequence: int
    time: datetime
    phase: str
    done: int
    total: int
    epoch: int
    epochs: int
    loss: Optional[float]


@dataclass(frozen=True)
class EpochFinished:
    """The job finished an epoch."""

    sequence: int
    time: datetime
    epoch: Epoch


@dataclass(frozen=True)
class Logged:
    """A line of the job's log; `severity` is INFO, WARNING or ERROR."""

    sequence: int
    time: datetime
    severity: str
    text: str


JobEvent = Union[StateChanged, Progressed, EpochFinished, Logged]


def job_state(number: int) -> JobState:
    return JobState[jobs_pb2.JobState.Name(jobs_pb2.JobState.ValueType(number))]


def epoch_from(message: report_pb2.EpochReport) -> Epoch:
    return Epoch(message=message, **same_fields(Epoch, message))


def report_from(message: report_pb2.TrainReport) -> TrainReport:
    return TrainReport(epochs=Rows(map(epoch_from, message.epochs)), message=message,
                       **same_fields(TrainReport, message))


def evaluation_from(message: report_pb2.EvaluateReport) -> EvaluateReport:
    return EvaluateReport(message=message, **same_fields(EvaluateReport, message))


def job_from(message: jobs_pb2.Job) -> Job:
    kind = message.spec.WhichOneof("kind") or ""
    return Job(
        kind=kind, state=job_state(message.state), options=job_options(message.spec),
        report=report_from(message.report.train) if kind == "train" else None,
        error=_error_from(message.error) if message.HasField("error") else None,
        create_time=optional_time(message, "create_time"),
        start_time=optional_time(message, "start_time"),
        end_time=optional_time(message, "end_time"), message=message,
        **same_fields(Job, message))


def event_from(message: jobs_pb2.JobEvent) -> Optional[JobEvent]:
    """None for an event that a later version of the daemon sends."""
    sequence, time = message.sequence, time_of(message.time)
    payload = message.WhichOneof("payload")
    if payload == "state":
        change = message.state
        return StateChanged(sequence, time, job_state(change.state),
                            _error_from(change.error) if change.HasField("error") else None,
                            change.waiting_reason)
    if payload == "progress":
        return Progressed(sequence, time, **same_fields(Progressed, message.progress))
    if payload == "epoch":
        return EpochFinished(sequence, time, epoch_from(message.epoch))
    if payload == "log":
        severity = jobs_pb2.LogLine.Severity.Name(message.log.severity)
        return Logged(sequence, time, severity, message.log.text)
    return None


def _error_from(message: jobs_pb2.JobError) -> JobError:
    return JobError(code_of(message.code), message.message)
