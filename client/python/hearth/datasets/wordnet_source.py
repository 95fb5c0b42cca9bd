"""Reads WordNet's data files: synsets, their pointers, labels and words.

The file format is described in wordnet's manual, wndb(5WN).
"""

from __future__ import annotations

import array
from pathlib import Path
from typing import Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from hearth.datasets.manifest import ConversionError

NUM_CLASSES = 45

# In node order. Satellite adjectives ("s") are in the file of adjectives.
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
PART_OF_LETTER = {"n": 0, "v": 1, "a": 2, "s": 2, "r": 3}

# An offset in a data file has 8 decimal digits, so part * this + offset is unique.
_OFFSET_LIMIT = 10**8

IntArray = npt.NDArray[np.int64]


class Pointer(NamedTuple):
    """A pointer of the manual from a synset, and the key of its target."""

    symbol: str
    key: int


class Synset(NamedTuple):
    """One line of a data file. Keys are as `synset_key` makes them."""

    key: int
    label: int
    words: list[str]
    pointers: list[Pointer]
    gloss: str


def synset_key(part: int, offset: str) -> int:
    """The name of a synset over all data files; ascending in node order."""
    return part * _OFFSET_LIMIT + int(offset)


def data_files(source: Path) -> list[Path]:
    """The four data files, in node order; raises if one is missing."""
    paths = [source / f"data.{part}" for part in PARTS_OF_SPEECH]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ConversionError(
            f"{source} has no {', '.join(missing)}: WordNet is in Debian's package "
            "wordnet-base (apt-get install wordnet-base), in /usr/share/wordnet"
        )
    return paths


def parse_synset(line: str, part: int) -> Synset:
    """Reads one line; raises ValueError or LookupError if it is malformed.

    The fields are `offset file type words {word id}* pointers {symbol offset
    part source/target}*`, for verbs their frames, and after a bar the gloss.
    The count of words is hexadecimal, the count of pointers decimal.
    """
    head, bar, gloss = line.partition(" | ")
    if not bar:
        raise ValueError("no gloss")
    fields = head.split()
    if PART_OF_LETTER[fields[2]] != part:
        raise ValueError(f"type {fields[2]!r} does not belong in this file")
    label = int(fields[1])
    if not 0 <= label < NUM_CLASSES:
        raise ValueError(f"lexicographer file {label} is not in [0, {NUM_CLASSES})")
    first = 4 + 2 * int(fields[3], 16)
    end = first + 1 + 4 * int(fields[first])
    if end > len(fields):
        raise ValueError("fewer pointers than announced")
    pointers = [
        Pointer(fields[i], synset_key(PART_OF_LETTER[fields[i + 2]], fields[i + 1]))
        for i in range(first + 1, end, 4)
    ]
    return Synset(synset_key(part, fields[0]), label, fields[4:first:2], pointers, gloss.strip())


def read_synsets(path: Path, part: int) -> Iterator[Synset]:
    """Yields the synsets of a data file, passing over the license at its top."""
    with path.open(encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.startswith("  "):
                    continue
                try:
                    yield parse_synset(line, part)
                except (ValueError, LookupError) as error:
                    raise ConversionError(f"{path}:{number}: not a synset: {error}") from error
        except UnicodeDecodeError as error:
            raise ConversionError(f"{path}: not a text file: {error}") from error


def find_nodes(keys: IntArray, wanted: IntArray) -> IntArray:
    """The node of each wanted key. `keys` holds the key of each node."""
    if len(keys) == 0:
        raise ConversionError("the source holds no synsets")
    descents = np.flatnonzero(np.diff(keys) <= 0)
    if len(descents):
        raise ConversionError(f"offsets do not ascend after {describe_key(keys[descents[0]])}")
    nodes = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    dangling = np.flatnonzero(keys[nodes] != wanted)
    if len(dangling):
        raise ConversionError(f"a pointer leads to {describe_key(wanted[dangling[0]])}, "
                              "where no synset begins")
    return nodes


def split_nodes(num_nodes: int, seed: int) -> dict[str, IntArray]:
    """A 60/20/20 split. RandomState's stream is frozen; default_rng's may change."""
    order = np.random.RandomState(seed).permutation(num_nodes).astype(np.int64)
    bounds = [num_nodes * 60 // 100, num_nodes * 80 // 100]
    train, valid, test = (np.sort(part) for part in np.split(order, bounds))
    return {"train": train, "valid": valid, "test": test}


def as_int64(values: array.array[int]) -> IntArray:
    return np.frombuffer(values, dtype=np.int64) if len(values) else np.zeros(0, np.int64)


def describe_key(key: int) -> str:
    part, offset = divmod(int(key), _OFFSET_LIMIT)
    return f"offset {offset:08d} of data.{PARTS_OF_SPEECH[part]}"
