"""Signed feature hashing of glosses (Weinberger et al., 2009): rows of unit length.

The words are the matches of `[a-z]+` in the lower-cased gloss, repeats included. A
word's BLAKE2b digest of 8 bytes, read as a little-endian integer, gives the column
in its lowest bits, as many as the width has, and the sign in its highest bit (set:
minus). Rows are scaled to unit length; a gloss without words, or whose words cancel,
is a zero row. Sums are of integers, so that every machine writes equal bytes.
"""

from __future__ import annotations

import array
import hashlib
import re
from pathlib import Path
from typing import Sequence

import numpy as np
import numpy.typing as npt

from hearth.datasets.wordnet_source import as_int64

_ROWS_PER_BLOCK = 1024
_WORD = re.compile(r"[a-z]+")

FloatArray = npt.NDArray[np.float32]


class HashedWords(dict[str, int]):
    """word -> column, plus the width if its sign is minus; hashes each word once."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def __missing__(self, word: str) -> int:
        digest = hashlib.blake2b(word.encode("ascii"), digest_size=8).digest()
        value = int.from_bytes(digest, "little")
        slot = value % self.width + self.width * (value >> 63)
        self[word] = slot
        return slot


def hash_glosses(glosses: Sequence[str], slots: HashedWords) -> FloatArray:
    """The feature rows of some glosses, each of unit length or zero."""
    places = array.array("q")
    for row, gloss in enumerate(glosses):
        base = row * 2 * slots.width
        places.extend([base + slots[word] for word in _WORD.findall(gloss.lower())])
    counts = np.bincount(as_int64(places), minlength=len(glosses) * 2 * slots.width)
    counts = counts.reshape(len(glosses), 2, slots.width)
    sums = counts[:, 0] - counts[:, 1]
    lengths = np.sqrt(np.square(sums).sum(axis=1, keepdims=True).astype(np.float64))
    rows: FloatArray = (sums / np.maximum(lengths, 1.0)).astype(np.float32)
    return rows


def write_features(path: Path, glosses: Sequence[str], width: int) -> None:
    """Writes the feature matrix a block of rows at a time, to hold no more in memory."""
    slots = HashedWords(width)
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(glosses), width)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(glosses), _ROWS_PER_BLOCK):
            block = hash_glosses(glosses[start : start + _ROWS_PER_BLOCK], slots)
            file.write(block.astype("<f4", copy=False).tobytes())
