"""Writes .npy files whose length is known only at the end, a block at a time."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

# numpy's own headers end at a multiple of 64 bytes; 128 hold any shape written here.
_HEADER_BYTES = 128
_MAGIC = b"\x93NUMPY\x01\x00"


class NpyWriter:
    """A .npy file of rows, or of (2, E) written as pairs.

    The header is written last: until `close` the file is not a .npy file.
    """

    def __init__(self, path: Path, dtype: Any, row_shape: tuple[int, ...] = ()) -> None:
        self.num_rows = 0
        self._dtype = np.dtype(dtype)
        self.row_shape = row_shape
        self._file = path.open("w+b")
        self._file.write(bytes(_HEADER_BYTES))

    def append(self, rows: npt.NDArray[Any]) -> None:
        if rows.shape[1:] != self.row_shape:
            raise ValueError(f"rows of shape {rows.shape[1:]}, not {self.row_shape}")
        self._file.write(np.ascontiguousarray(rows, dtype=self._dtype).tobytes())
        self.num_rows += len(rows)

    def close(self) -> None:
        _write_header(self._file, self._dtype, (self.num_rows, *self.row_shape))
        self._file.close()


class PairWriter:
    """An int64 .npy file of shape (2, E): the second row is kept aside until `close`."""

    def __init__(self, path: Path) -> None:
        self.num_pairs = 0
        self._aside = path.with_name(path.name + ".second")
        self._first = path.open("w+b")
        self._second = self._aside.open("w+b")
        self._first.write(bytes(_HEADER_BYTES))

    def append(self, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> None:
        self._first.write(first.astype("<i8", copy=False).tobytes())
        self._second.write(second.astype("<i8", copy=False).tobytes())
        self.num_pairs += len(first)

    def close(self) -> None:
        self._second.seek(0)
        shutil.copyfileobj(self._second, self._first, 1 << 20)
        self._second.close()
        self._aside.unlink()
        _write_header(self._first, np.dtype("<i8"), (2, self.num_pairs))
        self._first.close()


def _write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    text = repr({"descr": dtype.str, "fortran_order": False, "shape": shape})
    room = _HEADER_BYTES - len(_MAGIC) - 2
    file.seek(0)
    file.write(_MAGIC + struct.pack("<H", room) + text.ljust(room - 1).encode() + b"\n")
