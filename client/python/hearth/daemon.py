"""Plans, and the daemon itself, as the daemon tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Mapping, Optional

from hearth.rows import Record, optional_time, same_fields
from hearth.v1 import access_pb2, admin_pb2, plans_pb2


@dataclass(frozen=True, repr=False)
class Plan(Record):
    """A plan that a job has prepared and the daemon keeps for later jobs."""

    name: str
    strategy: str
    datasets: tuple[str, ...]
    state: str
    """"whole", "unfinished" or "damaged"."""
    in_use: bool
    size_bytes: int
    create_time: Optional[datetime]
    use_time: Optional[datetime]
    properties: Mapping[str, str]
    """Purpose and contents of the plan."""
    message: plans_pb2.Plan = field(repr=False, compare=False)

    shown: ClassVar[tuple[str, ...]] = ("name", "strategy", "datasets", "state", "size_bytes",
                                        "in_use", "use_time")


@dataclass(frozen=True, repr=False)
class Status(Record):
    """State of the daemon; `message` has all fields, which admin.proto explains."""

    version: str
    data_dir: str
    start_time: Optional[datetime]
    draining: bool
    datasets: int
    jobs_queued: int
    jobs_running: int
    jobs_waiting: int
    max_running_jobs: int
    memory_bytes: int
    memory_limit_bytes: int
    memory_reserved_bytes: int
    disk_free_bytes: int
    plan_bytes: int
    devices: tuple[str, ...]
    warnings: tuple[str, ...]
    caller: str
    caller_role: str
    message: admin_pb2.Status = field(repr=False, compare=False)

    shown: ClassVar[tuple[str, ...]] = (
        "version", "data_dir", "draining", "datasets", "jobs_running", "jobs_queued",
        "jobs_waiting", "start_time", "memory_bytes", "memory_limit_bytes", "disk_free_bytes",
        "devices", "warnings", "caller", "caller_role")


@dataclass(frozen=True, repr=False)
class Member(Record):
    """A daemon of a cluster, as another one of it sees it."""

    name: str
    address: str
    error: str
    """Why it does not answer; empty if it does, and has the following."""
    round_trip_seconds: float
    version: str
    arithmetic: str
    """Machines of one job have the same."""
    jobs_running: int
    max_running_jobs: int
    datasets: Mapping[str, str]
    """Fingerprints by name."""
    message: admin_pb2.Member = field(repr=False, compare=False)

    shown: ClassVar[tuple[str, ...]] = ("name", "address", "error", "round_trip_seconds",
                                        "version", "jobs_running")


@dataclass(frozen=True, repr=False)
class Token(Record):
    """A token by which callers authenticate, without its secret."""

    name: str
    role: str
    """"viewer", "user" or "operator"."""
    create_time: Optional[datetime]
    expire_time: Optional[datetime]
    """None = the token never expires."""
    last_use_time: Optional[datetime]
    revoke_time: Optional[datetime]
    """None = the token is not revoked."""
    message: admin_pb2.Token = field(repr=False, compare=False)

    shown: ClassVar[tuple[str, ...]] = ("name", "role", "create_time", "expire_time",
                                        "last_use_time", "revoke_time")


def plan_from(message: plans_pb2.Plan) -> Plan:
    return Plan(datasets=tuple(message.datasets),
                state=plans_pb2.Plan.State.Name(message.state).lower(),
                create_time=optional_time(message, "create_time"),
                use_time=optional_time(message, "use_time"),
                properties={one.name: one.value for one in message.properties}, message=message,
                **same_fields(Plan, message))


def status_from(message: admin_pb2.Status) -> Status:
    return Status(start_time=optional_time(message, "start_time"),
                  devices=tuple(message.devices), warnings=tuple(message.warnings),
                  caller_role=_role(message.caller_role), message=message,
                  **same_fields(Status, message))


def member_from(message: admin_pb2.Member) -> Member:
    state = message.state
    return Member(version=state.version, arithmetic=state.arithmetic,
                  jobs_running=state.jobs_running, max_running_jobs=state.max_running_jobs,
                  datasets={one.name: one.fingerprint for one in state.datasets},
                  message=message, **same_fields(Member, message))


def token_from(message: admin_pb2.Token) -> Token:
    return Token(role=_role(message.role), create_time=optional_time(message, "create_time"),
                 expire_time=optional_time(message, "expire_time"),
                 last_use_time=optional_time(message, "last_use_time"),
                 revoke_time=optional_time(message, "revoke_time"), message=message,
                 **same_fields(Token, message))


def _role(role: int) -> str:
    return access_pb2.Role.Name(access_pb2.Role.ValueType(role)).lower() if role else ""
