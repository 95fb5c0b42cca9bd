"""Sweeps, as the daemon describes them: trials, results and events."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Iterable, Mapping, Optional, TypeVar, Union

from hearth.jobs import JobState, job_state
from hearth.options.specs import TRAIN
from hearth.options.values import python_value
from hearth.rows import Record, Rows, figure, optional_time, same_fields, time_of
from hearth.v1 import sweeps_pb2

Parameter = Union[str, bool, int, float]
Parameters = Mapping[str, Parameter]
"""Values by name as a keyword: numbers and bools where the option takes them, else texts."""


class SweepState(str, enum.Enum):
    """See sweeps.proto."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DONE = "DONE"
    STOPPED = "STOPPED"

    @property
    def has_ended(self) -> bool:
        return self in (SweepState.DONE, SweepState.STOPPED)


class TrialState(str, enum.Enum):
    """See sweeps.proto."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"

    @property
    def has_ended(self) -> bool:
        return self in (TrialState.SUCCEEDED, TrialState.FAILED, TrialState.STOPPED)


@dataclass(frozen=True)
class Trial:
    """One trial as of the call."""

    number: int
    state: TrialState
    parameters: Parameters
    epochs: int
    metric: Optional[float]
    """Metric of the best epoch, the mean over the replicas."""
    rank: int
    """Rank by `metric`, from 1; 0 = none yet."""
    reason: str
    """Why the trial was stopped, or failed."""
    jobs: tuple[str, ...]
    best_job: str
    test_metric: Optional[float]
    """Metric on the test nodes, the mean over the replicas; None unless all were tested."""
    test_jobs: tuple[str, ...]
    """Evaluate jobs that test the trial as the best one."""
    shared_with: tuple[int, ...]
    """Trials that shared the last pass over the data with this one."""
    waiting_reason: str
    """Why the trial waits although `parallel` allows another one."""
    same_as: int
    """Number of the earlier equal trial whose state and result this one takes, without jobs of
    its own; 0 = none."""


@dataclass(frozen=True, repr=False)
class SweepRecord(Record):
    """A sweep as of the call; `message` has all fields, which sweeps.proto explains."""

    id: str
    state: SweepState
    algorithm: str
    metric: str
    """Name of the metric that judges trials; empty until an epoch is reported."""
    best_trial: int
    """Number of the best trial so far; 0 = none."""
    best_metric: Optional[float]
    best_parameters: Parameters
    best_test_metric: Optional[float]
    """Test metric of the best trial; None unless it was tested."""
    test_fault: str
    """Why the best trial could not be tested; empty otherwise."""
    create_time: Optional[datetime]
    end_time: Optional[datetime]
    last_sequence: int
    priority: int
    owner: str
    trace_id: str
    trials: Rows[Trial]
    """All trials by number; empty in lists of sweeps."""
    message: sweeps_pb2.Sweep = field(repr=False, compare=False)
    _calls: Any = field(default=None, repr=False, compare=False)

    shown: ClassVar[tuple[str, ...]] = ("id", "state", "dataset", "algorithm", "num_trials",
                                        "metric", "best_trial", "best_metric", "best_parameters",
                                        "best_test_metric", "create_time")

    @property
    def dataset(self) -> str:
        """Dataset on which the trials train."""
        return self.message.spec.train.data.dataset

    @property
    def num_trials(self) -> int:
        """Number of trials so far, also in lists of sweeps."""
        return sum(count.trials for count in self.message.counts)

    def _repr_html_(self) -> str:
        return super()._repr_html_() + (self.trials._repr_html_() if self.trials else "")


@dataclass(frozen=True)
class EpochResult:
    """One epoch of one replica of a trial."""

    trial: int
    replica: int
    epoch: int
    metric: Optional[float]
    loss: float
    job: str


@dataclass(frozen=True)
class Decision:
    """A decision about a replica: START, HOLD, GO_ON or STOP, with the reason of a stop."""

    trial: int
    replica: int
    action: str
    reason: str


@dataclass(frozen=True)
class SweepStateChanged:
    """The sweep entered a state."""

    sequence: int
    time: datetime
    decisions: tuple[Decision, ...]
    state: SweepState
    same_as: tuple[int, ...] = ()
    """At the sweep's begin: for each trial, the number of the earlier trial whose result it takes;
    0 = none. Empty if all trials train."""

    def __str__(self) -> str:
        """The state, and a line for each trial that does not train."""
        return "\n".join([self.state.value.lower(),
                          *(f"trial {number}: same as trial {one}"
                            for number, one in enumerate(self.same_as, 1) if one)])


@dataclass(frozen=True)
class TrialAdded:
    """A trial was added."""

    sequence: int
    time: datetime
    decisions: tuple[Decision, ...]
    trial: int
    parameters: Parameters
    same_as: int = 0
    """See Trial.same_as."""

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        same = f"; same as trial {self.same_as}" if self.same_as else ""
        return f"trial {self.trial}: {values}{same}"


@dataclass(frozen=True)
class EpochsReported:
    """Replicas finished an epoch, and were judged together."""

    sequence: int
    time: datetime
    decisions: tuple[Decision, ...]
    metric: str
    results: Rows[EpochResult]

    def __str__(self) -> str:
        """A line for each replica."""
        return "\n".join(f"trial {one.trial}: epoch {one.epoch}: {self._figures(one)}"
                         for one in self.results)

    def _figures(self, one: EpochResult) -> str:
        if one.metric is None or self.metric == "loss":
            return f"loss {figure(one.loss)}"
        return f"loss {figure(one.loss)}, {self.metric} {figure(one.metric)}"


@dataclass(frozen=True)
class ReplicaEnded:
    """A replica's job ended by itself, not by a decision of the sweep."""

    sequence: int
    time: datetime
    decisions: tuple[Decision, ...]
    trial: int
    replica: int
    state: JobState
    reason: str
    test_metric: Optional[float]
    """Result of the job's own test."""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"trial {self.trial}: replica {self.replica} {self.state.value.lower()}{why}"


@dataclass(frozen=True)
class EvaluationBegun:
    """All trials have ended; the best one is tested, unless `fault` says why not."""

    sequence: int
    time: datetime
    decisions: tuple[Decision, ...]
    trial: int
    fault: str

    def __str__(self) -> str:
        if self.fault:
            return f"trial {self.trial} is not tested: {self.fault}"
        return f"trial {self.trial} is tested as the best one"


@dataclass(frozen=True)
class EvaluationEnded:
    """The test of a replica of the best trial ended."""

    sequence: int
    time: datetime
    decisions: tuple[Decision, ...]
    replica: int
    state: JobState
    reason: str
    test_metric: Optional[float]

    def __str__(self) -> str:
        result = f": {figure(self.test_metric)}" if self.test_metric is not None else ""
        why = f": {self.reason}" if self.reason else ""
        return f"test of replica {self.replica} {self.state.value.lower()}{result}{why}"


@dataclass(frozen=True)
class TrialStopped:
    """Somebody stopped a trial."""

    sequence: int
    time: datetime
    decisions: tuple[Decision, ...]
    trial: int

    def __str__(self) -> str:
        return f"trial {self.trial} was stopped"


AnySweep = TypeVar("AnySweep", bound=SweepRecord)
SweepEvent = Union[SweepStateChanged, TrialAdded, EpochsReported, ReplicaEnded, TrialStopped,
                   EvaluationBegun, EvaluationEnded]


def sweep_state(number: int) -> SweepState:
    name = sweeps_pb2.SweepState.Name(sweeps_pb2.SweepState.ValueType(number))
    return SweepState[name.removeprefix("SWEEP_")]


def sweep_from(message: sweeps_pb2.Sweep, type_of_sweep: type[AnySweep],
               calls: Any = None) -> AnySweep:
    return type_of_sweep(
        state=sweep_state(message.state), algorithm=message.spec.WhichOneof("algorithm") or "",
        best_parameters=_parameters(message.best_parameters),
        create_time=optional_time(message, "create_time"),
        end_time=optional_time(message, "end_time"),
        trials=Rows(map(_trial_from, message.trials)), message=message, _calls=calls,
        **same_fields(SweepRecord, message))


def event_from(message: sweeps_pb2.SweepEvent) -> Optional[SweepEvent]:
    """The event of a message; None for events of later versions of the daemon."""
    head = (message.sequence, time_of(message.time), tuple(map(_decision_from, message.decisions)))
    payload = message.WhichOneof("payload")
    if payload == "state":
        return SweepStateChanged(*head, sweep_state(message.state.state),
                                 tuple(message.state.same_as))
    if payload == "added":
        return TrialAdded(*head, message.added.trial, _parameters(message.added.parameters),
                          message.added.same_as)
    if payload == "results":
        return EpochsReported(*head, message.results.metric, Rows(
            EpochResult(**same_fields(EpochResult, one)) for one in message.results.results))
    if payload == "ended":
        end = message.ended
        return ReplicaEnded(*head, state=job_state(end.state), **same_fields(ReplicaEnded, end))
    if payload == "test":
        return EvaluationBegun(*head, message.test.trial, message.test.fault)
    if payload == "tested":
        tested = message.tested
        return EvaluationEnded(*head, state=job_state(tested.state),
                               **same_fields(EvaluationEnded, tested))
    if payload == "stop":
        return TrialStopped(*head, message.stop.trial)
    return None


def _trial_from(message: sweeps_pb2.Trial) -> Trial:
    name = sweeps_pb2.TrialState.Name(sweeps_pb2.TrialState.ValueType(message.state))
    return Trial(state=TrialState[name.removeprefix("TRIAL_")],
                 parameters=_parameters(message.parameters), jobs=tuple(message.jobs),
                 test_jobs=tuple(message.test_jobs), shared_with=tuple(message.shared_with),
                 **same_fields(Trial, message))


def _parameters(settings: Iterable[sweeps_pb2.TrialSetting]) -> Parameters:
    return {setting.name.replace("-", "_"): python_value(TRAIN.named(setting.name), setting.value)
            for setting in settings}


def _decision_from(message: sweeps_pb2.TrialDecision) -> Decision:
    action = sweeps_pb2.TrialDecision.Action.Name(message.action)
    return Decision(message.trial, message.replica, action, message.reason)
