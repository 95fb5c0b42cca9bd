"""Jobs, as the daemon describes them: options, states, reports and events."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Mapping, Optional, TypeVar, Union

import grpc

from hearth.errors import HearthError, code_of
from hearth.options.specs import job_options
from hearth.rows import Record, Rows, figure, optional_time, same_fields, time_of
from hearth.v1 import jobs_pb2, report_pb2

if TYPE_CHECKING:
    import pandas


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
class Stage:
    """The time of one stage of the pipeline in an epoch, summed over its threads."""

    epoch: int
    name: str
    threads: int
    busy_seconds: float
    starved_seconds: float
    blocked_seconds: float


@dataclass(frozen=True)
class Epoch:
    """One finished epoch; `message` has all fields, which report.proto explains."""

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
    hits: Mapping[str, int]
    """Rows that each level of the cache held, by the level's name."""
    phases: Mapping[str, float]
    """Seconds of the strategy's own phases."""
    stages: Rows[Stage]
    message: report_pb2.EpochReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class MachineChange:
    """Where another number of machines began to train a job."""

    epoch: int
    batch: int
    """The first batch that they trained, from 0."""
    machines: int
    message: report_pb2.MachineChange = field(repr=False, compare=False)


@dataclass(frozen=True)
class TrainReport:
    """Progress and results of a train job; complete once it has succeeded."""

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
    machine_changes: Rows[MachineChange]
    message: report_pb2.TrainReport = field(repr=False, compare=False)

    @property
    def best_epoch(self) -> Optional[Epoch]:
        """The first epoch with the best validation metric; None without any. NaN, for a metric
        that is not defined, is never the best."""
        judged = [epoch for epoch in self.epochs
                  if epoch.valid_metric is not None and not math.isnan(epoch.valid_metric)]
        least_is_best = self.metric == "mse"
        return min(judged, default=None, key=lambda epoch: (
            (epoch.valid_metric or 0.0) if least_is_best else -(epoch.valid_metric or 0.0)))


@dataclass(frozen=True)
class EvaluateReport:
    """Result of evaluating a trained model on the test nodes."""

    metric: str
    test_metric: Optional[float]
    """None without labeled test nodes."""
    kept_epoch: int
    peak_memory_bytes: int
    memory_bound_bytes: int
    warm_start: bool
    message: report_pb2.EvaluateReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class ImportReport:
    """Result of an import or of a generated graph."""

    num_nodes: int
    num_edges: int
    feature_dim: int
    label_width: int
    bytes_written: int
    seconds: float
    message: report_pb2.ImportReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class VerifyReport:
    """Amount of data that matched its checksums."""

    files: int
    blocks: int
    bytes: int
    seconds: float
    message: report_pb2.VerifyReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class Preparation:
    """A plan that was made or found; `message` has all fields."""

    plan: str
    reused: bool
    seconds: float
    disk_bytes: int
    reason: str
    message: report_pb2.PreparationReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class PrepareReport:
    """The plans of a prepare job."""

    preparation: Optional[Preparation]
    partition: Optional[Preparation]
    peak_memory_bytes: int
    memory_bound_bytes: int
    message: report_pb2.PrepareReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class ExplainReport:
    """The forecast of a train job; None for unknown values."""

    memory_bytes: int
    memory: Mapping[str, int]
    """Bytes of memory by purpose."""
    batches: int
    rows_needed: int
    bytes_needed: int
    bytes_read: Optional[int]
    read_ops: Optional[int]
    disk_bytes: Optional[int]
    prepare_seconds: Optional[float]
    epoch_seconds: Optional[float]
    plan: str
    plan_exists: bool
    notes: tuple[str, ...]
    message: report_pb2.ExplainReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class FeedPasses:
    """What the passes of a feed over one split cost, added up; `message` has all fields."""

    split: str
    """train, valid or test."""
    passes: int
    batches: int
    seconds: float
    rows_needed: int
    bytes_needed: int
    rows_read: Optional[int]
    bytes_read: Optional[int]
    read_ops: Optional[int]
    io_wait_seconds: Optional[float]
    message: report_pb2.PassReport = field(repr=False, compare=False)


@dataclass(frozen=True)
class FeedReport:
    """Progress and results of a feed job, whose batches a client trains on."""

    passes: Rows[FeedPasses]
    wait_seconds: float
    """Seconds that the client waited for batches."""
    script_seconds: float
    """Seconds that the client worked between them."""
    copied_batches: int
    epochs: Rows[Epoch]
    """Epochs that the client has reported."""
    peak_memory_bytes: int
    memory_bound_bytes: int
    warm_start: bool
    message: report_pb2.FeedReport = field(repr=False, compare=False)


@dataclass(frozen=True, repr=False)
class JobRecord(Record):
    """A job as of the call; `message` has all fields, which jobs.proto explains."""

    id: str
    kind: str
    state: JobState
    options: Mapping[str, str]
    """The options of a train or feed job, by their names as keywords of Client.train."""
    report: Optional[TrainReport]
    """Report of a train job."""
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
    _calls: Any = field(default=None, repr=False, compare=False)

    shown: ClassVar[tuple[str, ...]] = ("id", "kind", "state", "dataset", "model", "epochs_done",
                                        "create_time", "owner")

    @property
    def dataset(self) -> str:
        """Name of the job's dataset; empty if it has none."""
        spec: Any = getattr(self.message.spec, self.kind, None)
        if self.kind in ("import", "generate"):
            return str(spec.name)
        if self.kind == "explain":
            return str(spec.train.data.dataset)
        if self.kind in ("train", "prepare", "feed"):
            return str(spec.data.dataset)
        return str(getattr(spec, "dataset", ""))

    @property
    def model(self) -> str:
        """Model that a train job trains; empty for other jobs."""
        return self.options.get("model", "")

    @property
    def epochs_done(self) -> Optional[int]:
        """Epochs that are finished; None for a job that does not train."""
        return len(self.report.epochs) if self.report is not None else None

    def epochs_frame(self) -> pandas.DataFrame:
        """A row for each epoch of a train job so far. Needs pandas."""
        return self.train_report().epochs.frame()

    def stages_frame(self) -> pandas.DataFrame:
        """A row for each stage of the pipeline in each epoch so far: seconds in which its threads
        worked (busy), waited for input (starved) and for the next stage (blocked). Needs
        pandas."""
        return Rows(stage for epoch in self.train_report().epochs
                    for stage in epoch.stages).frame()

    def train_report(self) -> TrainReport:
        """The report of a train job so far. HearthError for a job of another kind."""
        if self.report is None:
            raise HearthError(grpc.StatusCode.FAILED_PRECONDITION, f"{self.id} is not a train job")
        return self.report

    def feed_report(self) -> FeedReport:
        """The report of a feed job so far. HearthError for a job of another kind."""
        if self.kind != "feed":
            raise HearthError(grpc.StatusCode.FAILED_PRECONDITION, f"{self.id} is not a feed job")
        return feed_from(self.message.report.feed)


@dataclass(frozen=True)
class FeedAddress:
    """Where a client takes the batches of a feed job: see feeds.proto."""

    path: str
    """Path of a Unix socket of type SOCK_SEQPACKET; empty: the ticket is for a stream."""
    ticket: bytes
    """Good for one connection in the next 30 s."""


@dataclass(frozen=True)
class StateChanged:
    """The job entered a state."""

    sequence: int
    time: datetime
    state: JobState
    error: Optional[JobError]
    waiting_reason: str

    def __str__(self) -> str:
        why = self.error.message if self.error is not None else self.waiting_reason
        return self.state.value.lower() + (f": {why}" if why else "")


@dataclass(frozen=True)
class Progressed:
    """The job made progress."""

    sequence: int
    time: datetime
    phase: str
    done: int
    total: int
    epoch: int
    epochs: int
    loss: Optional[float]

    def __str__(self) -> str:
        place = f"epoch {self.epoch}/{self.epochs}, " if self.epoch else ""
        return f"{place}{self.phase} {self.done}/{self.total or '?'}"


@dataclass(frozen=True)
class EpochFinished:
    """The job finished an epoch."""

    sequence: int
    time: datetime
    epoch: Epoch

    def __str__(self) -> str:
        valid = (f", {self.epoch.metric} {figure(self.epoch.valid_metric)}"
                 if self.epoch.valid_metric is not None else "")
        return (f"epoch {self.epoch.epoch}: loss {figure(self.epoch.loss)}{valid}, "
                f"{self.epoch.seconds:.1f} s")


@dataclass(frozen=True)
class Logged:
    """A line of the job's log; `severity` is INFO, WARNING or ERROR."""

    sequence: int
    time: datetime
    severity: str
    text: str

    def __str__(self) -> str:
        return self.text if self.severity == "INFO" else f"{self.severity.lower()}: {self.text}"


AnyJob = TypeVar("AnyJob", bound=JobRecord)
JobEvent = Union[StateChanged, Progressed, EpochFinished, Logged]


def job_state(number: int) -> JobState:
    return JobState[jobs_pb2.JobState.Name(jobs_pb2.JobState.ValueType(number))]


def epoch_from(message: report_pb2.EpochReport) -> Epoch:
    return Epoch(hits={one.level: one.rows for one in message.hits},
                 phases={one.name: one.seconds for one in message.phases},
                 stages=Rows(Stage(message.epoch, **same_fields(Stage, one))
                             for one in message.stages),
                 message=message, **same_fields(Epoch, message))


def report_from(message: report_pb2.TrainReport) -> TrainReport:
    changes = Rows(MachineChange(message=one, **same_fields(MachineChange, one))
                   for one in message.machine_changes)
    return TrainReport(epochs=Rows(map(epoch_from, message.epochs)), machine_changes=changes,
                       message=message, **same_fields(TrainReport, message))


def evaluation_from(message: report_pb2.EvaluateReport) -> EvaluateReport:
    return EvaluateReport(message=message, **same_fields(EvaluateReport, message))


def import_from(message: report_pb2.ImportReport) -> ImportReport:
    return ImportReport(message=message, **same_fields(ImportReport, message))


def verification_from(message: report_pb2.VerifyReport) -> VerifyReport:
    return VerifyReport(message=message, **same_fields(VerifyReport, message))


def prepare_from(message: report_pb2.PrepareReport) -> PrepareReport:
    def one(there: bool, made: report_pb2.PreparationReport) -> Optional[Preparation]:
        return Preparation(message=made, **same_fields(Preparation, made)) if there else None

    return PrepareReport(one(message.HasField("preparation"), message.preparation),
                         one(message.HasField("partition"), message.partition), message=message,
                         **same_fields(PrepareReport, message))


def explanation_from(message: report_pb2.ExplainReport) -> ExplainReport:
    return ExplainReport(memory={share.owner: share.bytes for share in message.memory},
                         notes=tuple(message.notes), message=message,
                         **same_fields(ExplainReport, message))


def feed_from(message: report_pb2.FeedReport) -> FeedReport:
    parts = (("train", message.train), ("valid", message.valid), ("test", message.test))
    return FeedReport(passes=Rows(FeedPasses(split=split, passes=part.passes, message=part.sum,
                                             **same_fields(FeedPasses, part.sum))
                                  for split, part in parts),
                      epochs=Rows(map(epoch_from, message.epochs)), message=message,
                      **same_fields(FeedReport, message))


def job_from(message: jobs_pb2.Job, type_of_job: type[AnyJob], calls: Any = None) -> AnyJob:
    kind = message.spec.WhichOneof("kind") or ""
    return type_of_job(
        kind=kind, state=job_state(message.state), options=job_options(message.spec),
        report=report_from(message.report.train) if kind == "train" else None,
        error=_error_from(message.error) if message.HasField("error") else None,
        create_time=optional_time(message, "create_time"),
        start_time=optional_time(message, "start_time"),
        end_time=optional_time(message, "end_time"), message=message,
        _calls=calls, **same_fields(JobRecord, message))


def event_from(message: jobs_pb2.JobEvent) -> Optional[JobEvent]:
    """The event of a message; None for events of later versions of the daemon."""
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
