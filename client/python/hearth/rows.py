"""Records of results, and lists of them, which can become data frames."""

from __future__ import annotations

import dataclasses
import enum
import html
from datetime import datetime, timezone
from typing import (TYPE_CHECKING, Any, ClassVar, Generic, Iterable, Iterator, Mapping, Optional,
                    Sequence, TypeVar)

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

if TYPE_CHECKING:
    import pandas

_HTML_ROWS = 60
Row = TypeVar("Row")


class Record:
    """Base of the frozen dataclasses that describe the daemon's jobs, datasets and the like, as
    of the call. Copies and pickles have no client."""

    shown: ClassVar[tuple[str, ...]] = ()
    """Fields and properties that people are shown."""

    def __repr__(self) -> str:
        """The first five fields of `shown` that are not empty: Job(id='train-1', ...)."""
        texts = [(name, getattr(self, name), self._text(name)) for name in self.shown[:5]]
        facts = (f"{name}={text if isinstance(value, (int, float)) else repr(text)}"
                 for name, value, text in texts if text)
        return f"{type(self).__name__}({', '.join(facts)})"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        return html_table((), [(name.replace("_", " "), self._text(name)) for name in self.shown])

    def _text(self, name: str) -> str:
        return cell_text(getattr(self, name))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_calls"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _calls=None)


class Rows(tuple[Row, ...], Generic[Row]):
    """Frozen dataclasses in order."""

    def frame(self) -> pandas.DataFrame:
        """A data frame with a row for each record and a column for each field; a field that is
        a dataclass or a mapping has a column `field.name` for each of its fields. Needs
        pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("frame() needs pandas: pip install pandas") from error
        cells = [dict(_cells("", row)) for row in self]
        nested = {name.rpartition(".")[0] for row in cells for name in row}
        return pandas.DataFrame([{name: value for name, value in row.items()
                                  if name not in nested} for row in cells])

    def _repr_html_(self) -> str:
        """A table of the first rows, for notebooks."""
        if not self:
            return "<p>none</p>"
        names: Sequence[str] = getattr(type(self[0]), "shown", ()) or [
            name for name, _ in _cells("", self[0])]
        rest = len(self) - _HTML_ROWS
        table = html_table(names, [[cell_text(_at(row, name)) for name in names]
                                   for row in self[:_HTML_ROWS]])
        return table + (f"<p>and {rest} more</p>" if rest > 0 else "")


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of escaped texts. Without a head row, the first column is the head."""
    def row(cells: Iterable[tuple[str, str]]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>"
                                for tag, text in cells) + "</tr>"

    lines = [row(("th", name.replace("_", " ")) for name in head)] if head else []
    lines += [row(("td" if head or i else "th", text) for i, text in enumerate(one))
              for one in rows]
    return f"<table>{''.join(lines)}</table>"


def cell_text(value: Any) -> str:
    """A value for people."""
    if value is None:
        return ""
    if isinstance(value, enum.Enum):
        return str(value.value).lower()
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={cell_text(one)}" for name, one in value.items())
    if isinstance(value, (tuple, list)):
        return ", ".join(map(cell_text, value))
    return str(value)


def _at(row: Any, path: str) -> Any:
    """The field at a path such as "report.metric", or the entry of a mapping; None if absent."""
    for name in path.split("."):
        row = row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)
    return row


def _cells(prefix: str, row: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(row):
        # Fields without a representation are protobuf messages.
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
    """The time in a field; None if it is not set."""
    return time_of(getattr(message, field)) if message.HasField(field) else None


def figure(value: float) -> str:
    """A loss or metric for people: 0.6931, or 4.714e+19 where four decimals say too little."""
    size = abs(value)
    return f"{value:.4f}" if size == 0 or 0.001 <= size < 10_000 else f"{value:.4g}"


def same_fields(kind: type, message: Message) -> dict[str, Any]:
    """Values of the number and text fields that a dataclass shares with a message by name; None
    for fields that are not set."""
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
