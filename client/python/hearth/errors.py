"""Exceptions of calls, and what their fields mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

_DETAILS = "grpc-status-details-bin"
_BAD_REQUEST = "/google.rpc.BadRequest"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True)
class Violation:
    """One field of a request that is at fault, and why."""

    field: str
    """The option, as a keyword of Client.train ("batch_size") or a parameter of a sweep
    ("space lr"); for other fields the path in the request ("data.batch_size")."""
    description: str

    def __str__(self) -> str:
        return f"{self.field}: {self.description}" if self.field else self.description


class HearthError(Exception):
    """A call failed. `code` is the gRPC status code, `message` is for people, and `field` is the
    first of `violations`, if fields of the request are at fault."""

    def __init__(self, code: grpc.StatusCode, message: str,
                 violations: Sequence[Violation] = ()) -> None:
        super().__init__(code, message, tuple(violations))
        self.code = code
        self.message = message
        self.violations = tuple(violations)

    @property
    def field(self) -> Optional[str]:
        return self.violations[0].field if self.violations else None

    def __str__(self) -> str:
        return self.message


class InvalidRequest(HearthError):
    """The request makes no sense (INVALID_ARGUMENT). Unknown options and impossible values are
    refused before the daemon is asked."""


class NotFound(HearthError):
    """No job, sweep or dataset has that name (NOT_FOUND)."""


class Unavailable(HearthError):
    """The daemon cannot be reached or does not answer (UNAVAILABLE, DEADLINE_EXCEEDED), or it
    takes no jobs because it drains or stops."""


class JobFailed(HearthError):
    """A job did not succeed. `job` is its id, `code` the daemon's code, or CANCELLED."""

    def __init__(self, job: str, code: grpc.StatusCode, message: str) -> None:
        super().__init__(code, message)
        self.args = (job, code, message)
        self.job = job


def invalid(field: str, description: str) -> InvalidRequest:
    """The error of a request with one field at fault."""
    violation = Violation(field, description)
    return InvalidRequest(grpc.StatusCode.INVALID_ARGUMENT, str(violation), [violation])


def code_of(number: int) -> grpc.StatusCode:
    """The canonical code of a number, as in v1.JobError."""
    return _CODES.get(number, grpc.StatusCode.UNKNOWN)


def from_rpc(error: grpc.RpcError, server: str,
             name_of: Callable[[str], str] = lambda field: field) -> HearthError:
    """The error of a finished call. `name_of` maps a field's path to its option."""
    # Errors of calls are calls themselves, which the stubs of grpc do not say.
    call: Any = error
    code: grpc.StatusCode = call.code()
    message = call.details() or code.name
    violations = [Violation(name_of(one.field), one.description)
                  for one in _violations(call.trailing_metadata() or ())]
    if violations:
        message = "; ".join(map(str, violations))
    if code == grpc.StatusCode.DEADLINE_EXCEEDED or was_silent(error):
        return Unavailable(code, f"hearthd at {server} does not answer")
    if code == grpc.StatusCode.UNAVAILABLE:
        return Unavailable(code, f"hearthd at {server}: {message}")
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return HearthError(code, f"hearthd at {server} does not know this call; it may be older "
                                 f"than this client: {message}")
    kind = {grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
            grpc.StatusCode.NOT_FOUND: NotFound}.get(code, HearthError)
    return kind(code, message, violations)


def was_silent(error: grpc.RpcError) -> bool:
    """Whether the connection was given up because pings were not answered."""
    call: Any = error
    # Only the message tells, in words that depend on the version of gRPC.
    message = (call.details() or "").lower()
    return (call.code() == grpc.StatusCode.UNAVAILABLE
            and any(words in message for words in ("keepalive", "ping timeout")))


def _violations(metadata: Sequence[tuple[str, Any]]) -> list[Violation]:
    """Violations of a google.rpc.BadRequest in a google.rpc.Status, read field by field: a
    package for these messages is not worth a dependency.

        Status         { int32 code = 1; string message = 2; repeated Any details = 3; }
        BadRequest     { repeated FieldViolation field_violations = 1; }
        FieldViolation { string field = 1; string description = 2; }
    """
    found = []
    for status in (value for key, value in metadata if key == _DETAILS):
        for detail in _bytes_fields(status, 3):
            wrapped = AnyMessage.FromString(detail)
            if not wrapped.type_url.endswith(_BAD_REQUEST):
                continue
            for violation in _bytes_fields(wrapped.value, 1):
                field, description = (b"".join(_bytes_fields(violation, number)).decode()
                                      for number in (1, 2))
                found.append(Violation(field, description))
    return found


def _bytes_fields(message: bytes, number: int) -> list[bytes]:
    """Values of all length-delimited fields numbered `number` of a serialized message."""
    length_delimited = 2
    fields: Any = UnknownFieldSet(Empty.FromString(message))  # Stubs do not say it is iterable.
    return [field.data for field in fields
            if field.field_number == number and field.wire_type == length_delimited]
