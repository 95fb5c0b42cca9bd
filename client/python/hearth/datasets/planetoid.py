"""Converts a dataset of Planetoid (Cora, Citeseer, PubMed) into a plain numpy folder.

    python3 -m hearth.datasets.planetoid --raw DIR --name cora --output FOLDER [--normalize-features]

DIR holds `ind.NAME.{x,tx,allx,y,ty,ally,graph,test.index}` as Yang et al. (2016)
published them. The arrays equal those of PyG's `Planetoid`:

- Nodes: the rows of allx, then the rows of tx, whose row i is node `test.index[i]`.
  Where test.index has gaps (Citeseer), the nodes between are in the graph but
  have no row: their features are zero and their label is -1, unlabeled.
- Edges: `graph` lists the neighbors of each node. Both directions of each pair,
  without duplicates and without self loops; sorted by destination, then source.
- Labels: the column of the one in each row of ally and ty.
- Split: train is the first len(y) nodes, validation the 500 after them, test
  the nodes of test.index; written in ascending order. x and y repeat the first
  rows of allx and ally: only their shapes are used.
- `--normalize-features` does what PyG's transform NormalizeFeatures does: the
  smallest value of the matrix is subtracted, then each row is divided by its
  sum, or by 1 if its sum is less.

The folder appears complete or not at all (see atomic_folder.py); its
`source.json` has its origin, and whether features were normalized.
Pickles are read by planetoid_pickle.py, which runs nothing that they name.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np
import numpy.typing as npt

from hearth.datasets import manifest as manifests
from hearth.datasets.atomic_folder import atomic_folder
from hearth.datasets.manifest import ConversionError
from hearth.datasets.planetoid_pickle import MAX_DENSE_BYTES, read_adjacency, read_matrix

FORMAT = "hearth-planetoid-1"
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
NUM_VALIDATION = 500
UNLABELED = -1

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


class Graph(NamedTuple):
    """A converted dataset, in memory: Planetoid's largest takes 40 MB."""

    edge_index: IntArray  # (2, E): sources, destinations
    features: FloatArray  # (N, D)
    labels: IntArray  # (N)
    train: IntArray
    valid: IntArray
    test: IntArray
    num_classes: int


def raw_files(raw: Path, name: str) -> dict[str, Path]:
    """The eight files by their part; raises if one is missing."""
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise ConversionError(f"{name!r} is not the name of a dataset")
    paths = {part: raw / f"ind.{name}.{part}" for part in PARTS}
    missing = [path.name for path in paths.values() if not path.is_file()]
    if missing:
        raise ConversionError(f"{raw} has no {', '.join(missing)}")
    return paths


def read_test_index(path: Path) -> IntArray:
    """The node of each row of tx and ty: one decimal a line, each once."""
    nodes: list[int] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            text = line.strip()
            if not text.isdigit() or len(text) > 18:
                raise ConversionError(f"{path}:{number}: {text[:40]!r} is not a node")
            nodes.append(int(text))
    if len(set(nodes)) != len(nodes):
        raise ConversionError(f"{path}: a node is given twice")
    return np.array(nodes, dtype=np.int64)


def classes_of_rows(one_hot: FloatArray, path: Path) -> IntArray:
    """The column of each row's one; UNLABELED where the row is all zero."""
    wrong = np.flatnonzero(((one_hot != 0) & (one_hot != 1)).any(axis=1)
                           | (one_hot.sum(axis=1) > 1))
    if len(wrong):
        raise ConversionError(f"{path}: row {wrong[0]} does not name one class")
    labels = one_hot.argmax(axis=1).astype(np.int64) if one_hot.shape[1] else np.zeros(0, np.int64)
    return np.where(one_hot.any(axis=1), labels, UNLABELED).astype(np.int64)


def place_rows(first: npt.NDArray[Any], test: npt.NDArray[Any], nodes: IntArray,
               missing: int) -> npt.NDArray[Any]:
    """The rows of `first`, then row i of `test` at `nodes[i]`; `missing` in the gaps."""
    num_nodes = max(len(first), int(nodes.max(initial=-1)) + 1)
    result = np.full((num_nodes, *first.shape[1:]), missing, dtype=first.dtype)
    result[: len(first)] = first
    result[nodes] = test
    return result


def undirected_edges(adjacency: dict[int, list[int]], num_nodes: int, path: Path) -> IntArray:
    """Both directions of each pair, unique, by destination and then source; no self loops."""
    degrees = [len(neighbors) for neighbors in adjacency.values()]
    sources = np.repeat(np.fromiter(adjacency, np.int64, len(adjacency)), degrees)
    targets = np.fromiter((node for nodes in adjacency.values() for node in nodes), np.int64,
                          len(sources))
    nodes = np.concatenate([sources, targets, np.fromiter(adjacency, np.int64, len(adjacency))])
    outside = nodes[nodes >= num_nodes]
    if len(outside):
        raise ConversionError(f"{path}: node {outside[0]} has no features: "
                              f"the other files give {num_nodes} nodes")
    distinct = sources != targets
    sources, targets = sources[distinct], targets[distinct]
    unique = np.unique(np.concatenate([targets * num_nodes + sources,
                                       sources * num_nodes + targets]))
    return np.stack([unique % num_nodes, unique // num_nodes])


def normalize_rows(features: FloatArray) -> FloatArray:
    """Rows as PyG's NormalizeFeatures makes them: see the top of this file."""
    if features.size == 0:
        return features
    shifted = features - features.min()
    sums = shifted.sum(axis=1, keepdims=True, dtype=np.float32)
    normalized: FloatArray = shifted / np.maximum(sums, np.float32(1))
    return normalized


def read_graph(paths: dict[str, Path]) -> Graph:
    """Reads the eight files and checks them against each other."""
    matrices = {part: read_matrix(paths[part]) for part in ("x", "tx", "allx", "y", "ty", "ally")}
    nodes = read_test_index(paths["test.index"])
    _check_shapes(paths, matrices, nodes)
    first = len(matrices["allx"])
    features = place_rows(matrices["allx"], matrices["tx"], nodes, missing=0)
    labels = place_rows(classes_of_rows(matrices["ally"], paths["ally"]),
                        classes_of_rows(matrices["ty"], paths["ty"]), nodes, UNLABELED)
    edges = undirected_edges(read_adjacency(paths["graph"]), len(labels), paths["graph"])
    num_train = len(matrices["y"])
    if num_train + NUM_VALIDATION > first:
        raise ConversionError(f"{paths['allx']}: {first} rows, fewer than the {num_train} training "
                              f"nodes and {NUM_VALIDATION} of validation")
    return Graph(edges, features, labels,
                 train=np.arange(num_train, dtype=np.int64),
                 valid=np.arange(num_train, num_train + NUM_VALIDATION, dtype=np.int64),
                 test=np.sort(nodes), num_classes=matrices["ally"].shape[1])


def write_folder(folder: Path, graph: Graph) -> dict[str, int]:
    """Writes every array; returns the counts that the manifest records."""
    np.save(folder / "edge_index.npy", graph.edge_index)
    np.save(folder / "node_feat.npy", graph.features)
    np.save(folder / "node_label.npy", graph.labels)
    for name in ("train", "valid", "test"):
        np.save(folder / f"{name}_idx.npy", getattr(graph, name))
    return {
        "num_nodes": len(graph.labels),
        "num_edges": graph.edge_index.shape[1],
        "num_classes": graph.num_classes,
        "feature_dim": graph.features.shape[1],
        "num_unlabeled": int((graph.labels == UNLABELED).sum()),
        **{f"num_{name}": len(getattr(graph, name)) for name in ("train", "valid", "test")},
    }


def convert(raw: Path, name: str, output: Path, normalize: bool) -> dict[str, int]:
    """Makes `output` unless it is there already; returns its counts."""
    paths = raw_files(raw, name)
    origin = {
        "format": FORMAT,
        "name": name,
        "normalize_features": normalize,
        "source_sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                          for path in paths.values()},
    }
    manifest = manifests.read(output, "hearth-planetoid-")
    if manifest is None:
        manifests.refuse_foreign(output, "a converted dataset of Planetoid")
    elif manifests.is_complete(output, manifest, origin):
        _say(f"{output} is complete and of the same source: reused")
        reused: dict[str, int] = manifest["counts"]
        return reused
    graph = read_graph(paths)
    if normalize:
        graph = graph._replace(features=normalize_rows(graph.features))
    with atomic_folder(output) as folder:
        counts = write_folder(folder, graph)
        manifests.write(folder, origin, counts)
    return counts


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m hearth.datasets.planetoid",
        description="Convert a dataset of Planetoid into a numpy folder.",
    )
    parser.add_argument("--raw", type=Path, required=True, help="folder with ind.NAME.x and so on")
    parser.add_argument("--name", required=True, help="cora, citeseer or pubmed")
    parser.add_argument("--output", type=Path, required=True, help="folder to make")
    parser.add_argument("--normalize-features", action="store_true",
                        help="divide each row by its sum, as PyG's NormalizeFeatures does")
    options = parser.parse_args(arguments)
    try:
        counts = convert(options.raw, options.name, options.output, options.normalize_features)
    except (ConversionError, OSError) as error:
        print(f"planetoid: error: {error}", file=sys.stderr)
        return 1
    _say(", ".join(f"{name} {value:,}" for name, value in counts.items()))
    return 0


def _check_shapes(paths: dict[str, Path], matrices: dict[str, FloatArray],
                  nodes: IntArray) -> None:
    same_rows = [("x", "y"), ("tx", "ty"), ("allx", "ally")]
    same_columns = [("x", "allx"), ("tx", "allx"), ("y", "ally"), ("ty", "ally")]
    pairs = [(pair, 0) for pair in same_rows] + [(pair, 1) for pair in same_columns]
    for (one, other), axis in pairs:
        if matrices[one].shape[axis] != matrices[other].shape[axis]:
            raise ConversionError(f"{paths[one]}: of shape {matrices[one].shape}, where "
                                  f"{paths[other].name} has {matrices[other].shape}")
    if len(nodes) != len(matrices["tx"]):
        raise ConversionError(f"{paths['test.index']}: {len(nodes)} nodes for the "
                              f"{len(matrices['tx'])} rows of tx")
    num_rows, dim = matrices["allx"].shape
    if nodes.min(initial=num_rows) < num_rows:
        raise ConversionError(f"{paths['test.index']}: node {nodes.min()} has a row in allx, "
                              f"which gives nodes 0 to {num_rows - 1}")
    if (nodes.max(initial=0) + 1) * max(dim, 1) * 4 > MAX_DENSE_BYTES:
        raise ConversionError(f"{paths['test.index']}: node {nodes.max()} needs a feature matrix "
                              f"of more than {MAX_DENSE_BYTES} bytes")


def _say(message: str) -> None:
    print(f"planetoid: {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
