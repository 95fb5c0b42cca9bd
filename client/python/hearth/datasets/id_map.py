"""Maps the ids of a table, integers or strings, to the numbers 0 .. N - 1 of its rows.

Memory: an integer id takes 16 bytes, a string id as many as the longest one has
(in UTF-8) and 8 more; while the map is built, about twice that. Looking up a
batch takes a few times the batch.
"""

from __future__ import annotations

from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

IdArray = npt.NDArray[Any]  # int64, or S: bytes of one width, padded with zeros


class BadId(Exception):
    """The value at `position` of a batch is no id. `reason` says why."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


def is_integer_column(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def ids_of(column: pa.Array, as_integers: bool) -> IdArray:
    """A column of ids as an array. Raises BadId at the first that is none.

    Integers written as text, where the table of nodes has integers, are read as
    such; where it has text, integers are written out in decimal.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    _check(pc.is_null(column), "no id")
    is_text = _is_text(column.type)
    if not is_text and not pa.types.is_integer(column.type):
        raise BadId(0, f"ids of type {column.type}: they must be integers or strings")
    if as_integers:
        if is_text:
            text = pc.cast(column, pa.large_string())
            _check(pc.invert(pc.match_substring_regex(text, r"^-?[0-9]{1,18}$")),
                   "not an integer", text)
            return pc.cast(text, pa.int64()).to_numpy(zero_copy_only=False)
        if column.type == pa.uint64():
            _check(pc.greater(column, pa.scalar(2**63 - 1, pa.uint64())), "beyond 2^63 - 1",
                   column)
        return pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False)
    text = pc.cast(column, pa.large_string())
    _check(pc.equal(text, ""), "no id")
    _check(pc.match_substring(text, "\0"), "an id with a zero byte")
    return _fixed_width(pc.cast(text, pa.large_binary()))


class IdMap:
    """Thread-compatible. Built once from the ids in the order of their rows."""

    def __init__(self, ids: list[IdArray]) -> None:
        joined = np.concatenate(ids) if ids else np.zeros(0, np.int64)
        ids.clear()
        self._rows = np.argsort(joined, kind="stable")
        self._sorted = joined[self._rows]

    def __len__(self) -> int:
        return len(self._sorted)

    def duplicate(self) -> Optional[tuple[int, int]]:
        """The first row whose id an earlier row has, and that row; None if all differ."""
        same = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if not len(same):
            return None
        first = same[np.argmin(self._rows[same + 1])]
        return int(self._rows[first + 1]), int(self._rows[first])

    def rows_of(self, ids: IdArray) -> npt.NDArray[np.int64]:
        """The row of each id; -1 for an id that the table has not."""
        if not len(self._sorted):
            return np.full(len(ids), -1, np.int64)
        # In the width of the map, lest numpy widen the whole map for one long id.
        narrow = ids.astype(self._sorted.dtype)
        places = np.minimum(np.searchsorted(self._sorted, narrow), len(self._sorted) - 1)
        found = (self._sorted[places] == narrow) & (narrow == ids)
        return np.where(found, self._rows[places], -1).astype(np.int64)


def describe(value: Union[int, bytes]) -> str:
    """An element of an IdArray, for an error."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return repr(text if len(text) <= 60 else text[:60] + "...")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check(wrong: pa.Array, reason: str, values: Optional[pa.Array] = None) -> None:
    """Raises at the first row where `wrong` is true."""
    position = pc.index(wrong, True).as_py()
    if position >= 0:
        shown = "" if values is None else f"{str(values[position].as_py())[:60]!r} is "
        raise BadId(position, shown + reason)


def _fixed_width(column: pa.Array) -> IdArray:
    """large_binary without nulls as numpy's S of the longest value."""
    if not len(column):
        return np.zeros(0, "S1")
    offsets = np.frombuffer(column.buffers()[1], np.int64)
    offsets = offsets[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(offsets)
    data = np.frombuffer(column.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    width = int(lengths.max())
    result = np.zeros((len(column), width), np.uint8)
    rows = np.repeat(np.arange(len(column)), lengths)
    columns = np.arange(len(data)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    result[rows, columns] = data
    return result.reshape(-1).view(f"S{width}")
