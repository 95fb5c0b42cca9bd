"""Reads Planetoid's pickles without running anything that they name.

An ordinary unpickler calls whatever a file names. This one knows the names that
Planetoid's files need, in the spellings of Python 2 and 3, and resolves each to
a stand-in of its own, which records the file's data; arrays are then built from
the records, with checks. Neither scipy nor numpy's own unpickling takes part. Any
other name is refused before anything is called.
"""

from __future__ import annotations

import pickle
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from hearth.datasets.manifest import ConversionError

# A matrix that claims more columns than this times its rows allows is not built.
MAX_DENSE_BYTES = 1 << 32

_NUMBER = re.compile(r"([<>|=]?)([iufb])([1248])")

FloatArray = npt.NDArray[np.float32]


class CsrMatrix(NamedTuple):
    """A checked sparse matrix: row r holds `data[indptr[r]:indptr[r + 1]]`."""

    shape: tuple[int, int]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]
    data: npt.NDArray[Any]

    def dense(self) -> FloatArray:
        """float32 (rows, columns); entries given twice are summed, as scipy does."""
        result = np.zeros(self.shape, dtype=np.float32)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
        np.add.at(result, (rows, self.indices), self.data.astype(np.float32))
        return result


def read_matrix(path: Path) -> FloatArray:
    """A sparse or dense matrix as float32 (rows, columns)."""
    with _named(path):
        value = _load(path)
        if isinstance(value, _Csr):
            return value.matrix().dense()
        if isinstance(value, _Array):
            array = value.array()
            if array.ndim != 2:
                raise ValueError(f"an array of shape {array.shape}, not a matrix")
            return array.astype(np.float32)
        raise ValueError(f"holds {_describe(value)}, not a matrix")


def read_adjacency(path: Path) -> dict[int, list[int]]:
    """The dict of lists of a `graph` file: the neighbors of each node."""
    with _named(path):
        value = _load(path)
        if not isinstance(value, dict):
            raise ValueError(f"holds {_describe(value)}, not a dict of lists")
        for node, neighbors in value.items():
            if not _is_id(node) or not isinstance(neighbors, list):
                raise ValueError(f"the entry of {node!r:.40} is not a node and a list")
            wrong = [neighbor for neighbor in neighbors if not _is_id(neighbor)]
            if wrong:
                raise ValueError(f"node {node} has the neighbor {wrong[0]!r:.40}, not a node")
        return value


class _StandIn:
    """Stand-in of a permitted name. A pickle may only call it or give it a state.

    Pickle looks for this method first when a file would set attributes: because
    each class has it, no file can reach another method.
    """

    def __setstate__(self, state: Any) -> None:
        raise ValueError(f"{type(self).__name__[1:]} takes no state")


class _Dtype(_StandIn):
    def __init__(self, code: str, *_: Any) -> None:
        match = _NUMBER.fullmatch(code)
        if not match:
            raise ValueError(f"an array of type {code!r:.40}: only plain numbers are read")
        order, kind, size = match.groups()
        self.order, self.code = order or "=", kind + size

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "="):
            raise ValueError(f"an array of byte order {order!r:.40}")
        self.order = order

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class _Array(_StandIn):
    state: Optional[tuple[Any, ...]] = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> npt.NDArray[Any]:
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise ValueError("an array without a state")
        _, shape, dtype, is_fortran, data = self.state
        if not isinstance(dtype, _Dtype) or not isinstance(shape, tuple):
            raise ValueError("an array whose shape or type is something else")
        if not all(_is_id(extent) for extent in shape):
            raise ValueError(f"an array of shape {shape!r:.60}")
        if isinstance(data, str):  # Python 2's bytes, read as latin1
            data = data.encode("latin1")
        if not isinstance(data, bytes):
            raise ValueError(f"an array whose bytes are {_describe(data)}")
        expected = dtype.dtype().itemsize
        for extent in shape:
            expected *= extent
        if expected != len(data):
            raise ValueError(f"an array of shape {shape} needs {expected} bytes and has "
                             f"{len(data)}")
        order: Any = "F" if is_fortran else "C"
        return np.frombuffer(data, dtype.dtype()).reshape(shape, order=order)


class _Reconstruct(_StandIn):
    """numpy's `_reconstruct(ndarray, (0,), b"b")`: an array whose state follows."""

    def __new__(cls, *_: Any) -> Any:
        return _Array()


class _Encode(_StandIn):
    """`_codecs.encode(text, "latin1")`: how Python 3 writes bytes in protocol 2."""

    def __new__(cls, text: Any = "", encoding: Any = "latin1") -> Any:
        if not isinstance(text, str) or encoding != "latin1":
            raise ValueError("text that is not encoded as latin1")
        return text.encode("latin1")


class _Csr(_StandIn):
    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def matrix(self) -> CsrMatrix:
        if not isinstance(self.state, dict):
            raise ValueError("a sparse matrix without a state")
        shape = self.state.get("_shape")
        parts = [self.state.get(name) for name in ("indptr", "indices", "data")]
        arrays = [part.array() for part in parts if isinstance(part, _Array)]
        if len(arrays) != len(parts):
            raise ValueError("a sparse matrix without indptr, indices or data")
        indptr, indices, data = arrays
        return _checked_csr(shape, indptr, indices, data)


_NAMES: dict[tuple[str, str], Any] = {
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
    ("_codecs", "encode"): _Encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise ValueError(f"names {module}.{name}, which Planetoid's files have no use for: "
                             "refused") from None


class _named:
    """Turns any exception about a file's content into an error that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        # A damaged pickle raises nearly any exception: see pickle.UnpicklingError.
        if isinstance(error, Exception) and not isinstance(error, OSError):
            reason = str(error) or type(error).__name__
            raise ConversionError(f"{self.path}: not a file of Planetoid: {reason}") from error


def _load(path: Path) -> Any:
    with path.open("rb") as file:
        return _Unpickler(file, encoding="latin1").load()


def _checked_csr(shape: Any, indptr: npt.NDArray[Any], indices: npt.NDArray[Any],
                 data: npt.NDArray[Any]) -> CsrMatrix:
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(map(_is_id, shape)):
        raise ValueError(f"a sparse matrix of shape {shape!r:.60}")
    rows, columns = shape
    if rows * columns * 4 > MAX_DENSE_BYTES:
        raise ValueError(f"a matrix of shape {shape} would take {rows * columns * 4} bytes, "
                         f"more than {MAX_DENSE_BYTES}")
    if any(part.ndim != 1 for part in (indptr, indices, data)):
        raise ValueError("a sparse matrix whose parts are not vectors")
    if any(part.dtype.kind not in "iu" for part in (indptr, indices)):
        raise ValueError("a sparse matrix whose indices are not integers")
    indptr, indices = indptr.astype(np.int64), indices.astype(np.int64)
    if len(indptr) != rows + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError(f"a sparse matrix whose indptr does not ascend over {rows} rows")
    if not indptr[-1] == len(indices) == len(data):
        raise ValueError(f"a sparse matrix with {len(indices)} indices and {len(data)} values, "
                         f"where indptr ends at {indptr[-1]}")
    outside = np.flatnonzero((indices < 0) | (indices >= columns))
    if len(outside):
        raise ValueError(f"a sparse matrix whose entry {outside[0]} is in column "
                         f"{indices[outside[0]]} of {columns}")
    return CsrMatrix((rows, columns), indptr, indices, data)


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _describe(value: Any) -> str:
    name = type(value).__name__
    return name[1:].lower() if isinstance(value, _StandIn) else name
