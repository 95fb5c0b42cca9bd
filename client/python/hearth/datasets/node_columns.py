"""Turns the columns of a table of nodes into features, classes or targets, and the split.

Each reader takes batch after batch. Memory per node is 4 bytes for a class, 4 for
each target and 1 for the split. Errors name the file and the row.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Optional, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hearth.datasets.manifest import ConversionError
from hearth.datasets.table_layouts import PARTS
from hearth.datasets.table_reader import Batch

UNLABELED = -1
NO_PART = -1
# Values that Hearth takes for a mistake.
MAX_CLASSES = 10_000_000

_PART_OF_NAME = {"train": 0, "valid": 1, "validation": 1, "val": 1, "test": 2, "": NO_PART}
_INTEGER = re.compile(r"-?[0-9]{1,18}")


def is_feature(kind: pa.DataType) -> bool:
    """Whether a column of this type can be one feature, or as a list several."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind)
                or pa.types.is_boolean(kind) or pa.types.is_decimal(kind))


class FeatureReader:
    """float32 rows: all columns side by side, each a number or a list of one length."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self._widths: dict[str, int] = {}

    def rows(self, batch: Batch) -> npt.NDArray[np.float32]:
        return np.concatenate([self._column(batch, name) for name in self.columns], axis=1)

    def _column(self, batch: Batch, name: str) -> npt.NDArray[np.float32]:
        column = batch.columns.column(name)
        self._refuse(batch, pc.is_null(column), f"no value in column {name!r}")
        if not is_feature(column.type):
            raise batch.error(0, f"column {name!r} of type {column.type} is not a feature")
        width = 1
        if hasattr(column.type, "value_type"):
            lengths = pc.list_value_length(column)
            width = self._widths.setdefault(name, lengths[0].as_py())
            self._refuse(batch, pc.not_equal(lengths, width),
                         f"column {name!r} has not {width} values, as the first row has")
            column = column.flatten()
            self._refuse(batch, pc.is_null(column), f"no value in a list of {name!r}", width)
        values = _floats(column)
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        self._refuse(batch, np.isinf(single) & np.isfinite(values),
                     f"a value of column {name!r} is beyond float32", width)
        return single.reshape(batch.columns.num_rows, width)

    @staticmethod
    def _refuse(batch: Batch, wrong: Any, message: str, width: int = 1) -> None:
        positions = np.flatnonzero(np.asarray(wrong))
        if len(positions):
            raise batch.error(int(positions[0]) // width, message)


class ClassReader:
    """Numbers the classes of a column: see `finish`."""

    def __init__(self, column: str) -> None:
        self.column = column
        self._codes: dict[Any, int] = {}
        self._of_nodes: list[npt.NDArray[np.int32]] = []

    def append(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Takes a batch; returns which of its nodes have a class."""
        values, places = _distinct(batch, self.column)
        codes = np.empty(len(values) + 1, np.int32)
        codes[-1] = UNLABELED
        for number, value in enumerate(values):
            try:
                codes[number] = self._code(value)
            except ValueError as error:
                position = int(np.flatnonzero(places == number)[0])
                raise batch.error(position, f"column {self.column!r}: {error}") from error
        of_batch = codes[places]
        self._of_nodes.append(of_batch)
        labeled: npt.NDArray[np.bool_] = of_batch != UNLABELED
        return labeled

    def finish(self, path: Path) -> tuple[npt.NDArray[np.int64], Optional[list[str]]]:
        """The class of each node, UNLABELED for none, and the classes' names.

        If every value is a whole number, as a number or as text, the numbers are
        the classes, without names. Otherwise classes are numbered in the order of
        their names.
        """
        keys = list(self._codes)
        if all(isinstance(key, int) or _INTEGER.fullmatch(key) for key in keys):
            numbers, names = [int(key) for key in keys], None
            numbers = [number if number >= 0 else UNLABELED for number in numbers]
            if max(numbers, default=0) >= MAX_CLASSES:
                raise ConversionError(f"{path}: column {self.column!r}: class {max(numbers)}: "
                                      f"there may be {MAX_CLASSES}, from 0")
        else:
            names = sorted(map(str, keys))
            place = {name: number for number, name in enumerate(names)}
            numbers = [place[str(key)] for key in keys]
        of_code = np.array([*numbers, UNLABELED], np.int64)  # code -1 is the last
        joined = np.concatenate(self._of_nodes) if self._of_nodes else np.zeros(0, np.int32)
        return of_code[joined], names

    def _code(self, value: Any) -> int:
        if isinstance(value, bool):
            value = int(value)
        if isinstance(value, float):
            if value != value:
                return UNLABELED
            if not value.is_integer():
                raise ValueError(f"{value} is not a class; --target takes numbers to predict")
            value = int(value)
        if value == "" or (isinstance(value, int) and value < 0):
            return UNLABELED
        if len(self._codes) >= MAX_CLASSES and value not in self._codes:
            raise ValueError(f"more than {MAX_CLASSES} classes")
        return self._codes.setdefault(value, len(self._codes))


class TargetReader:
    """float32 numbers to predict, a column each; a row without any is unlabeled."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self._of_nodes: list[npt.NDArray[np.float32]] = []

    def append(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Takes a batch; returns which of its nodes have targets."""
        columns = [self._column(batch, name) for name in self.columns]
        values = np.stack(columns, axis=1)
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        missing = np.isnan(single)
        labeled: npt.NDArray[np.bool_] = np.asarray(~missing.all(axis=1))
        for wrong, message in ((np.isinf(single), "a value beyond float32"),
                               (missing & labeled[:, None], "no value, where other targets have")):
            rows, places = np.nonzero(wrong)
            if len(rows):
                raise batch.error(int(rows[0]), f"column {self.columns[places[0]]!r}: {message}")
        self._of_nodes.append(single)
        return labeled

    def finish(self) -> npt.NDArray[np.float32]:
        """Shape (N) for one column, (N, columns) for several; NaN: unlabeled."""
        joined = np.concatenate(self._of_nodes)
        return joined[:, 0] if len(self.columns) == 1 else joined

    def _column(self, batch: Batch, name: str) -> npt.NDArray[Any]:
        column = batch.columns.column(name)
        if not is_feature(column.type) or hasattr(column.type, "value_type"):
            raise batch.error(0, f"column {name!r} of type {column.type} is not of numbers")
        return _floats(column)


class SplitReader:
    """The part of the split named in a column: train, valid, test, or empty for none."""

    def __init__(self, column: str) -> None:
        self.column = column
        self._of_nodes: list[npt.NDArray[np.int8]] = []

    def append(self, batch: Batch, labeled: Optional[npt.NDArray[np.bool_]]) -> None:
        values, places = _distinct(batch, self.column)
        parts = np.full(len(values) + 1, NO_PART, np.int8)
        for number, value in enumerate(values):
            if value not in _PART_OF_NAME:
                position = int(np.flatnonzero(places == number)[0])
                raise batch.error(position, f"column {self.column!r}: {str(value)[:60]!r} is not "
                                            "train, valid or test")
            parts[number] = _PART_OF_NAME[value]
        of_batch = parts[places]
        if labeled is not None:
            wrong = np.flatnonzero((of_batch != NO_PART) & ~labeled)
            if len(wrong):
                raise batch.error(int(wrong[0]), f"in {PARTS[of_batch[wrong[0]]]}, and without a "
                                                 "class")
        self._of_nodes.append(of_batch)

    def finish(self) -> dict[str, npt.NDArray[np.int64]]:
        joined = np.concatenate(self._of_nodes) if self._of_nodes else np.zeros(0, np.int8)
        return {name: np.flatnonzero(joined == part) for part, name in enumerate(PARTS)}


def seeded_split(labels: npt.NDArray[Any], seed: int) -> dict[str, npt.NDArray[np.int64]]:
    """60/20/20 of the nodes that have a class or targets. RandomState's stream is frozen."""
    labeled = labels != UNLABELED
    if labels.dtype.kind == "f":
        labeled = ~np.isnan(labels).reshape(len(labels), -1).all(axis=1)
    order = np.random.RandomState(seed).permutation(np.flatnonzero(labeled))
    bounds = [len(order) * 60 // 100, len(order) * 80 // 100]
    return {name: np.sort(part) for name, part in zip(PARTS, np.split(order, bounds))}


def _distinct(batch: Batch, name: str) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """The distinct values of a column, and the index of each row's value; -1 for null."""
    column = batch.columns.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if not any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating,
                                       pa.types.is_boolean, pa.types.is_string,
                                       pa.types.is_large_string, pa.types.is_null)):
        raise batch.error(0, f"column {name!r} of type {kind}: not integers, floats or strings")
    encoded = column.dictionary_encode()
    places = pc.fill_null(pc.cast(encoded.indices, pa.int64()), -1)
    return encoded.dictionary.to_pylist(), places.to_numpy(zero_copy_only=False)


def _floats(column: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_decimal(column.type):
        column = pc.cast(column, pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
