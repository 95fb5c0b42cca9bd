"""Lists of results, which pandas can have as a frame."""

from __future__ import annotations

import dataclasses
import enum
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Generic, Iterator, Mapping, Optional, TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

if TYPE_CHECKING:
    import pandas

Row = TypeVar("Row")


class Rows(tuple[Row, ...], Generic[Row]):
    """Frozen dataclasses in order."""

    def frame(self) -> pandas.DataFrame:
        """A row for each, a column for each field; those of a field that is a dataclass or a
        mapping are `field.name`. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError(
                "frame() needs pandas: pip install 'hearth[pandas]'") from error
        cells = [dict(_cells("", row)) for row in self]
        nested = {name.rpartition(".")[0] for row in cells for name in row}
        return pandas.DataFrame([{name: value for name, value in row.items()
                                  if name not in nested} for row in cells])


def _cells(prefix: str, row: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(row):
        # What is not shown is the message behind it.
        if not field.repr:
            continue
        value, name = getattr(row, field.name), prefix + field.name
        if isinstance(value, Rows):
            continue
        if dataclasses.is_dataclass(value):
            yield from _cells(f"{name}.", value)
        elif isinstance(value, Mapping):
            yield from ((f"{name}.{key}", one) for key, one in value.items())
        else:
            yield name, value.value if isinstance(value, enum.Enum) else value


def time_of(time: Timestamp) -> datetime:
    return time.ToDatetime(timezone.utc)


def optional_time(message: Message, field: str) -> Optional[datetime]:
    """The time in a field; None where it is absent."""
    return time_of(getattr(message, field)) if message.HasField(field) else None


def same_fields(kind: type, message: Message) -> dict[str, Any]:
    """The values of the fields that a dataclass shares with a message by name and that are
    numbers or texts; None for those that are absent."""
    descriptor = message.DESCRIPTOR
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        described = descriptor.fields_by_name.get(field.name)
        if described is None or described.is_repeated or described.message_type is not None \
                or described.enum_type is not None:
            continue
        absent = described.has_presence and not message.HasField(field.name)
        values[field.name] = None if absent else getattr(message, field.name)
    return values
