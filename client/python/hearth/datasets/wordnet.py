"""Converts WordNet's database files into a plain numpy folder for Hearth.

    python3 -m hearth.datasets.wordnet --source /usr/share/wordnet --output DIR [--seed 0]

The graph:

- Nodes: one per synset, in the order noun, verb, adj, adv and within a part of
  speech in the order of its data file. Node ids depend on nothing else.
- Edges: one per pointer between two synsets, semantic or lexical, and its
  reverse, without duplicates; sorted by destination, then source. Row 0 of
  `edge_index.npy` holds the sources, row 1 the destinations. A pointer between
  two words of one synset would be a self loop and is left out (WordNet 3.0 has
  nine synsets with such pointers).
- Features: signed feature hashing (Weinberger et al., 2009) of the gloss. The
  words are the matches of `[a-z]+` in the lower-cased gloss, repeats included.
  A word's BLAKE2b digest of 8 bytes, read as a little-endian integer, gives the
  column in its lowest 10 bits and the sign in its highest bit (set: minus).
  Rows are scaled to unit length; a gloss without words, or whose words cancel,
  is a zero row. Sums are of integers, so that every machine writes equal bytes.
- Labels: the lexicographer file of the synset, 0 (adj.all) to 44 (adj.ppl).
- Split: a seeded permutation, 60% train, 20% valid, 20% test (the rest), each
  written in ascending order.

The folder appears complete or not at all (see atomic_folder.py). Its
`source.json` says what it was made from; a run that would make the same folder
again reuses it. The file format is described in wordnet's manual, wndb(5WN).
"""

from __future__ import annotations

import argparse
import array
import hashlib
import re
import sys
import time
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional, Sequence

import numpy as np
import numpy.typing as npt

from hearth.datasets import manifest as manifests
from hearth.datasets.atomic_folder import atomic_folder
from hearth.datasets.manifest import ConversionError

FORMAT = "hearth-wordnet-1"
FEATURE_DIM = 1024
NUM_CLASSES = 45

# In node order. A satellite adjective ("s") is kept in the file of adjectives.
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
PART_OF_LETTER = {"n": 0, "v": 1, "a": 2, "s": 2, "r": 3}

# The counts of WordNet 3.0; other versions convert too, and are told apart aloud.
WORDNET_3_0 = {"num_nodes": 117659, "num_edges": 367578, "num_classes": NUM_CLASSES}

# An offset in a data file has 8 decimal digits, so part * this + offset is unique.
_OFFSET_LIMIT = 10**8
_ROWS_PER_BLOCK = 1024
_WORD = re.compile(r"[a-z]+")

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


class Synset(NamedTuple):
    """One line of a data file. Keys are as `synset_key` makes them."""

    key: int
    label: int
    pointers: list[int]
    gloss: str


class Graph(NamedTuple):
    """A whole WordNet; glosses and labels are in node order."""

    edge_index: IntArray
    labels: IntArray
    glosses: list[str]


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
    The count of words is hexadecimal, that of pointers decimal.
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
        synset_key(PART_OF_LETTER[fields[i + 2]], fields[i + 1]) for i in range(first + 1, end, 4)
    ]
    return Synset(synset_key(part, fields[0]), label, pointers, gloss.strip())


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


def read_graph(paths: Sequence[Path]) -> Graph:
    """Reads all data files, given in node order."""
    keys, labels = array.array("q"), array.array("q")
    sources, targets = array.array("q"), array.array("q")
    glosses: list[str] = []
    for part, path in enumerate(paths):
        for synset in read_synsets(path, part):
            sources.extend([len(keys)] * len(synset.pointers))
            targets.extend(synset.pointers)
            keys.append(synset.key)
            labels.append(synset.label)
            glosses.append(synset.gloss)
    target_nodes = find_nodes(_as_int64(keys), _as_int64(targets))
    edges = symmetric_edges(_as_int64(sources), target_nodes, num_nodes=len(keys))
    return Graph(edges, _as_int64(labels), glosses)


def find_nodes(keys: IntArray, wanted: IntArray) -> IntArray:
    """The node of each wanted key. `keys` holds the key of each node."""
    if len(keys) == 0:
        raise ConversionError("the source holds no synsets")
    descents = np.flatnonzero(np.diff(keys) <= 0)
    if len(descents):
        raise ConversionError(f"offsets do not ascend after {_describe_key(keys[descents[0]])}")
    nodes = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    dangling = np.flatnonzero(keys[nodes] != wanted)
    if len(dangling):
        raise ConversionError(f"a pointer leads to {_describe_key(wanted[dangling[0]])}, "
                              "where no synset begins")
    return nodes


def symmetric_edges(sources: IntArray, targets: IntArray, num_nodes: int) -> IntArray:
    """Both directions of each pair, unique, by destination and then source; no self loops."""
    distinct = sources != targets
    sources, targets = sources[distinct], targets[distinct]
    both_from = np.concatenate([sources, targets])
    both_to = np.concatenate([targets, sources])
    unique = np.unique(both_to * num_nodes + both_from)
    return np.stack([unique % num_nodes, unique // num_nodes])


class HashedWords(dict[str, int]):
    """word -> column, plus FEATURE_DIM if its sign is minus; hashes each word once."""

    def __missing__(self, word: str) -> int:
        digest = hashlib.blake2b(word.encode("ascii"), digest_size=8).digest()
        value = int.from_bytes(digest, "little")
        slot = value % FEATURE_DIM + FEATURE_DIM * (value >> 63)
        self[word] = slot
        return slot


def hash_glosses(glosses: Sequence[str], slots: HashedWords) -> FloatArray:
    """The feature rows of some glosses, each of unit length or zero."""
    places = array.array("q")
    for row, gloss in enumerate(glosses):
        base = row * 2 * FEATURE_DIM
        places.extend([base + slots[word] for word in _WORD.findall(gloss.lower())])
    counts = np.bincount(_as_int64(places), minlength=len(glosses) * 2 * FEATURE_DIM)
    counts = counts.reshape(len(glosses), 2, FEATURE_DIM)
    sums = counts[:, 0] - counts[:, 1]
    lengths = np.sqrt(np.square(sums).sum(axis=1, keepdims=True).astype(np.float64))
    rows: FloatArray = (sums / np.maximum(lengths, 1.0)).astype(np.float32)
    return rows


def write_features(path: Path, glosses: Sequence[str]) -> None:
    """Writes the feature matrix a block of rows at a time, to hold no more in memory."""
    slots = HashedWords()
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(glosses), FEATURE_DIM)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(glosses), _ROWS_PER_BLOCK):
            block = hash_glosses(glosses[start : start + _ROWS_PER_BLOCK], slots)
            file.write(block.astype("<f4", copy=False).tobytes())


def split_nodes(num_nodes: int, seed: int) -> dict[str, IntArray]:
    """A 60/20/20 split. RandomState's stream is frozen; default_rng's may change."""
    order = np.random.RandomState(seed).permutation(num_nodes).astype(np.int64)
    bounds = [num_nodes * 60 // 100, num_nodes * 80 // 100]
    train, valid, test = (np.sort(part) for part in np.split(order, bounds))
    return {"train": train, "valid": valid, "test": test}


def write_folder(folder: Path, graph: Graph, seed: int) -> dict[str, int]:
    """Writes every array; returns the counts that the manifest records."""
    splits = split_nodes(len(graph.glosses), seed)
    np.save(folder / "edge_index.npy", graph.edge_index)
    np.save(folder / "node_label.npy", graph.labels)
    for name, nodes in splits.items():
        np.save(folder / f"{name}_idx.npy", nodes)
    write_features(folder / "node_feat.npy", graph.glosses)
    counts = {
        "num_nodes": len(graph.glosses),
        "num_edges": graph.edge_index.shape[1],
        "num_classes": len(np.unique(graph.labels)),
        "feature_dim": FEATURE_DIM,
    }
    counts.update({f"num_{name}": len(nodes) for name, nodes in splits.items()})
    return counts


def describe_origin(paths: Sequence[Path], seed: int) -> dict[str, Any]:
    """All that the content of a folder depends on; opens its manifest."""
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return {"format": FORMAT, "seed": seed, "source_sha256": hashes}


def convert(source: Path, output: Path, seed: int) -> dict[str, int]:
    """Makes `output` from `source` unless it is there already; returns its counts."""
    paths = data_files(source)
    origin = describe_origin(paths, seed)
    manifest = manifests.read(output, "hearth-wordnet-")
    if manifest is None:
        manifests.refuse_foreign(output, "a converted WordNet")
    elif manifests.is_complete(output, manifest, origin):
        _say(f"{output} is complete and of the same source and seed: reused")
        reused: dict[str, int] = manifest["counts"]
        return reused
    else:
        _say(f"{output} is incomplete, or of another source or seed: it will be replaced")
    _say(f"reading {', '.join(path.name for path in paths)} in {source}")
    graph = read_graph(paths)
    _say(f"{len(graph.glosses):,} synsets, {graph.edge_index.shape[1]:,} edges")
    with atomic_folder(output) as folder:
        megabytes = len(graph.glosses) * FEATURE_DIM * 4 / 1e6
        _say(f"writing {megabytes:,.0f} MB of features to {folder}, to be renamed to {output}")
        counts = write_folder(folder, graph, seed)
        manifests.write(folder, origin, counts)
    return counts


def report(counts: dict[str, int]) -> None:
    """Prints the counts, and says so if they are not WordNet 3.0's."""
    _say(", ".join(f"{name} {value:,}" for name, value in counts.items()))
    if any(counts[name] != value for name, value in WORDNET_3_0.items()):
        _say(f"note: these are not the counts of WordNet 3.0, {WORDNET_3_0}")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m hearth.datasets.wordnet",
        description="Convert WordNet's database files into a numpy folder.",
    )
    parser.add_argument("--source", type=Path, default=Path("/usr/share/wordnet"),
                        help="folder with data.noun and the rest (default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, help="folder to make")
    parser.add_argument("--seed", type=int, default=0, help="of the split (default: %(default)s)")
    options = parser.parse_args(arguments)
    if not 0 <= options.seed < 2**32:
        parser.error("--seed must be in [0, 2^32)")
    start = time.monotonic()
    try:
        report(convert(options.source, options.output, options.seed))
    except (ConversionError, OSError) as error:
        print(f"wordnet: error: {error}", file=sys.stderr)
        return 1
    _say(f"done in {time.monotonic() - start:.1f} s")
    return 0


def _as_int64(values: array.array[int]) -> IntArray:
    return np.frombuffer(values, dtype=np.int64) if len(values) else np.zeros(0, np.int64)


def _describe_key(key: int) -> str:
    part, offset = divmod(int(key), _OFFSET_LIMIT)
    return f"offset {offset:08d} of data.{PARTS_OF_SPEECH[part]}"


def _say(message: str) -> None:
    print(f"wordnet: {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
