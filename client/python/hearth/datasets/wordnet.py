"""Converts WordNet's database files into a plain numpy folder for Hearth.

    python3 -m hearth.datasets.wordnet --source /usr/share/wordnet --output DIR [--seed 0]

With --heterogeneous, into a graph of several types of nodes and edges, which
wordnet_heterograph.py describes. Without it, the graph:

- Nodes: one per synset, in the order noun, verb, adj, adv and within a part of
  speech in the order of its data file. Node ids depend on nothing else.
- Edges: one per pointer between two synsets, semantic or lexical, and its
  reverse, without duplicates; sorted by destination, then source. Row 0 of
  `edge_index.npy` holds the sources, row 1 the destinations. A pointer between
  two words of one synset would be a self loop and is left out (WordNet 3.0 has
  nine synsets with such pointers).
- Features: the words of the gloss, hashed into 1,024 columns (gloss_features.py).
- Labels: the lexicographer file of the synset, 0 (adj.all) to 44 (adj.ppl).
- Split: a seeded permutation, 60% train, 20% valid, 20% test (the rest), each
  written in ascending order.

The folder appears complete or not at all (see atomic_folder.py). Its
`source.json` has its origin; a run that would make the same folder again reuses
it.
"""

from __future__ import annotations

import argparse
import array
import hashlib
import sys
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Sequence

import numpy as np

from hearth.datasets import manifest as manifests
from hearth.datasets import wordnet_heterograph as heterograph
from hearth.datasets.atomic_folder import atomic_folder
from hearth.datasets.gloss_features import write_features
from hearth.datasets.manifest import ConversionError
from hearth.datasets.wordnet_source import (NUM_CLASSES, IntArray, as_int64, data_files,
                                            find_nodes, read_synsets, split_nodes)

FORMAT = "hearth-wordnet-1"
FEATURE_DIM = 1024

# Counts of WordNet 3.0; other versions are converted, too, with a message.
WORDNET_3_0 = {"num_nodes": 117659, "num_edges": 367578, "num_classes": NUM_CLASSES}

# Writes a graph to a folder; returns the counts that the manifest records.
WriteFolder = Callable[[Path], dict[str, int]]


class Graph(NamedTuple):
    """A whole WordNet; glosses and labels are in node order."""

    edge_index: IntArray
    labels: IntArray
    glosses: list[str]


def read_graph(paths: Sequence[Path]) -> Graph:
    """Reads all data files, given in node order."""
    keys, labels = array.array("q"), array.array("q")
    sources, targets = array.array("q"), array.array("q")
    glosses: list[str] = []
    for part, path in enumerate(paths):
        for synset in read_synsets(path, part):
            sources.extend([len(keys)] * len(synset.pointers))
            targets.extend(pointer.key for pointer in synset.pointers)
            keys.append(synset.key)
            labels.append(synset.label)
            glosses.append(synset.gloss)
    target_nodes = find_nodes(as_int64(keys), as_int64(targets))
    edges = symmetric_edges(as_int64(sources), target_nodes, num_nodes=len(keys))
    return Graph(edges, as_int64(labels), glosses)


def symmetric_edges(sources: IntArray, targets: IntArray, num_nodes: int) -> IntArray:
    """Both directions of each pair, unique, by destination and then source; no self loops."""
    distinct = sources != targets
    sources, targets = sources[distinct], targets[distinct]
    both_from = np.concatenate([sources, targets])
    both_to = np.concatenate([targets, sources])
    unique = np.unique(both_to * num_nodes + both_from)
    return np.stack([unique % num_nodes, unique // num_nodes])


def write_folder(folder: Path, graph: Graph, seed: int) -> dict[str, int]:
    """Writes every array; returns the counts that the manifest records."""
    splits = split_nodes(len(graph.glosses), seed)
    np.save(folder / "edge_index.npy", graph.edge_index)
    np.save(folder / "node_label.npy", graph.labels)
    for name, nodes in splits.items():
        np.save(folder / f"{name}_idx.npy", nodes)
    write_features(folder / "node_feat.npy", graph.glosses, FEATURE_DIM)
    counts = {
        "num_nodes": len(graph.glosses),
        "num_edges": graph.edge_index.shape[1],
        "num_classes": len(np.unique(graph.labels)),
        "feature_dim": FEATURE_DIM,
    }
    counts.update({f"num_{name}": len(nodes) for name, nodes in splits.items()})
    return counts


class Choices(NamedTuple):
    """A user's choices about the folder."""

    seed: int = 0
    heterogeneous: bool = False
    with_words: bool = True


def describe_origin(paths: Sequence[Path], choices: Choices) -> dict[str, Any]:
    """Everything that the content of a folder depends on, for its manifest."""
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    origin: dict[str, Any] = {"format": FORMAT, "seed": choices.seed, "source_sha256": hashes}
    if choices.heterogeneous:
        origin.update(format=heterograph.FORMAT, words=choices.with_words)
    return origin


def convert(source: Path, output: Path, choices: Choices) -> dict[str, int]:
    """Makes `output` from `source` unless it is there already; returns its counts."""
    paths = data_files(source)
    origin = describe_origin(paths, choices)
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
    read = _read_heterograph if choices.heterogeneous else _read_graph
    write = read(paths, choices)
    with atomic_folder(output) as folder:
        _say(f"writing {folder}, to be renamed to {output}")
        counts = write(folder)
        manifests.write(folder, origin, counts)
    return counts


def _read_graph(paths: Sequence[Path], choices: Choices) -> WriteFolder:
    graph = read_graph(paths)
    _say(f"{len(graph.glosses):,} synsets, {graph.edge_index.shape[1]:,} edges, "
         f"{len(graph.glosses) * FEATURE_DIM * 4 / 1e6:,.0f} MB of features")
    return lambda folder: write_folder(folder, graph, choices.seed)


def _read_heterograph(paths: Sequence[Path], choices: Choices) -> WriteFolder:
    graph = heterograph.read_heterograph(paths, heterograph.MIN_POINTERS, choices.with_words)
    _say(f"{sum(map(len, graph.glosses.values())):,} synsets and {graph.num_words:,} words, "
         f"{len(graph.edges)} types of edges")
    return lambda folder: heterograph.write_heterograph(folder, graph, choices.seed)


def report(counts: dict[str, int], choices: Choices) -> None:
    """Prints the counts, with a note if they are not WordNet 3.0's."""
    _say(", ".join(f"{name} {value:,}" for name, value in counts.items()))
    known = heterograph.WORDNET_3_0 if choices.heterogeneous else WORDNET_3_0
    if any(counts[name] != value for name, value in known.items()):
        _say(f"note: these are not the counts of WordNet 3.0, {known}")
    if choices.heterogeneous and choices.with_words:
        _say("words have no features: import the folder with --fill-features mean")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m hearth.datasets.wordnet",
        description="Convert WordNet's database files into a folder that Hearth imports.",
    )
    parser.add_argument("--source", type=Path, default=Path("/usr/share/wordnet"),
                        help="folder with data.noun and the rest (default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, help="folder to make")
    parser.add_argument("--seed", type=int, default=0, help="of the split (default: %(default)s)")
    parser.add_argument("--heterogeneous", action="store_true",
                        help="types of nodes by part of speech, of edges by pointer")
    parser.add_argument("--without-words", action="store_true",
                        help="with --heterogeneous: leave out nodes for words, which have no "
                             "features")
    options = parser.parse_args(arguments)
    if not 0 <= options.seed < 2**32:
        parser.error("--seed must be in [0, 2^32)")
    if options.without_words and not options.heterogeneous:
        parser.error("--without-words is for --heterogeneous")
    choices = Choices(options.seed, options.heterogeneous, not options.without_words)
    start = time.monotonic()
    try:
        report(convert(options.source, options.output, choices), choices)
    except (ConversionError, OSError) as error:
        print(f"wordnet: error: {error}", file=sys.stderr)
        return 1
    _say(f"done in {time.monotonic() - start:.1f} s")
    return 0


def _say(message: str) -> None:
    print(f"wordnet: {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
