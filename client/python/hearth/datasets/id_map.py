"""Maps the ids of a table, integers or strings, to the numbers 0 .. N - 1 of its rows.

Memory: an integer id takes 24 bytes, a string id 16 bytes and the length of the
longest id in UTF-8; while the map is built, about twice that. Looking up a batch
takes a few times the batch.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Odd, with bits all over: from the digits of the golden ratio and of pi.
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0x243F6A8885A308D3, 0x13198A2E03707345)

IdArray = npt.NDArray[Any]  # int64, or S: bytes of one width, padded with zeros


class BadId(Exception):
    """The value at `position` of a batch is no id, for `reason`."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


def is_integer_column(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def ids_of(column: pa.Array, as_integers: bool) -> IdArray:
    """A column of ids as an array. Raises BadId at the first value that is no id.

    If the table of nodes has integers, integers in text are read as integers; if
    it has text, integers are written out in decimal.
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
            return np.asarray(pc.cast(text, pa.int64()).to_numpy(zero_copy_only=False))
        if column.type == pa.uint64():
            _check(pc.greater(column, pa.scalar(2**63 - 1, pa.uint64())), "beyond 2^63 - 1",
                   column)
        return np.asarray(pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False))
    text = pc.cast(column, pa.large_string())
    _check(pc.equal(text, ""), "no id")
    _check(pc.match_substring(text, "\0"), "an id with a zero byte")
    return _fixed_width(pc.cast(text, pa.large_binary()))


class IdMap:
    """Thread-compatible. Built once from the ids in the order of their rows.

    Lookups search sorted keys: integers themselves, or 64-bit hashes of strings,
    after which the strings are compared. A multiplier that gives two ids of the
    map one hash is not used; if all multipliers do, the strings themselves are
    sorted, which is slower.
    """

    def __init__(self, ids: list[IdArray], multipliers: Sequence[int] = _MULTIPLIERS) -> None:
        self._ids = np.concatenate(ids) if ids else np.zeros(0, np.int64)
        ids.clear()
        self._multiplier: Optional[int] = None
        if self._ids.dtype.kind == "S":
            for multiplier in multipliers:
                self._multiplier = multiplier
                self._sort()
                same = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
                if (self._ids[self._rows[same]] == self._ids[self._rows[same + 1]]).all():
                    return
            self._multiplier = None
        self._sort()

    def __len__(self) -> int:
        return len(self._ids)

    def duplicate(self) -> Optional[tuple[int, int]]:
        """The first row whose id an earlier row has, and the earlier row; None if all differ."""
        same = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if not len(same):
            return None
        first = same[np.argmin(self._rows[same + 1])]
        return int(self._rows[first + 1]), int(self._rows[first])

    def rows_of(self, ids: IdArray) -> npt.NDArray[np.int64]:
        """The row of each id; -1 for an id that is not in the table."""
        if not len(self._ids):
            return np.full(len(ids), -1, np.int64)
        # Cut to the width of the map: numpy would widen the whole map for one long id.
        narrow = ids.astype(self._ids.dtype)
        keys = self._keys(narrow)
        # Ascending searches touch the map in order, which is several times faster.
        order = np.argsort(keys)
        places = np.empty(len(keys), np.int64)
        places[order] = np.searchsorted(self._sorted, keys[order])
        rows = self._rows[np.minimum(places, len(self._sorted) - 1)]
        found = (self._ids[rows] == narrow) & (narrow == ids)
        return np.where(found, rows, -1).astype(np.int64)

    def _sort(self) -> None:
        keys = self._keys(self._ids)
        self._rows = np.argsort(keys, kind="stable")
        self._sorted = keys[self._rows]

    def _keys(self, ids: IdArray) -> npt.NDArray[Any]:
        return ids if self._multiplier is None else _hash(ids, self._multiplier)


def _hash(ids: IdArray, multiplier: int) -> npt.NDArray[np.uint64]:
    """Hashes bytes of one width, eight at a time; in blocks, which bounds the copies."""
    result = np.zeros(len(ids), np.uint64)
    width = ids.dtype.itemsize
    num_words = -(-width // 8)
    for start in range(0, len(ids), 1 << 16):
        block = ids[start : start + (1 << 16)]
        padded = np.zeros((len(block), 8 * num_words), np.uint8)
        padded[:, :width] = np.frombuffer(block.tobytes(), np.uint8).reshape(-1, width)
        hashes = result[start : start + len(block)]
        for word in padded.view(np.uint64).T:
            hashes ^= word
            hashes *= np.uint64(multiplier)
            hashes ^= hashes >> np.uint64(32)
    return result


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
