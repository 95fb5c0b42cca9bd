"""Reads the GraphBolt folders that hearth.datasets.wordnet --heterogeneous makes.

Of metadata.yaml only the lines that hearth.datasets.table_layouts writes are
understood: a reader of YAML is not needed. Features stay on disk, mapped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

EdgeType = tuple[str, str, str]  # source, relation, destination

_NODES = re.compile(r'^ +- \{type: "([^":]+)", num: (\d+)\}$', re.MULTILINE)
_EDGES = re.compile(r'^ +- \{type: "([^":]+):([^":]+):([^":]+)", format: numpy, path: "([^"]+)"\}$',
                    re.MULTILINE)
_TARGET = re.compile(r'num_classes: (\d+)\n    train_set:\n      - type: "([^"]+)"')


class GraphBoltFolder(NamedTuple):
    num_nodes: dict[str, int]
    edges: dict[EdgeType, np.ndarray]  # int64 (2, E): sources, destinations
    features: dict[str, np.ndarray]  # float32 (N, columns) of each node type
    target: str  # the node type of the labels
    labels: np.ndarray  # int64 (N); -1 outside the sets
    num_classes: int
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray

    @property
    def widths(self) -> dict[str, int]:
        return {kind: columns.shape[1] for kind, columns in self.features.items()}


def read_graphbolt_folder(folder: Path) -> GraphBoltFolder:
    metadata = (folder / "metadata.yaml").read_text(encoding="utf-8")
    num_nodes = {kind: int(count) for kind, count in _NODES.findall(metadata)}
    edges = {(source, name, destination): _read_edges(folder / path)
             for source, name, destination, path in _EDGES.findall(metadata)}
    tasks = _TARGET.findall(metadata)
    if not edges or len(tasks) != 1:
        raise ValueError(f"{folder}/metadata.yaml has {len(edges)} edge types and {len(tasks)} "
                         "tasks, not some and one")
    (num_classes, target), = tasks
    labels = np.full(num_nodes[target], -1, dtype=np.int64)
    sets = {}
    for name in ("train", "valid", "test"):
        sets[name] = np.load(folder / f"sets/{name}_seeds.{target}.npy")
        labels[sets[name]] = np.load(folder / f"sets/{name}_labels.{target}.npy")
    features = {kind: np.load(folder / f"features/{kind}.npy", mmap_mode="r")
                for kind in num_nodes}
    return GraphBoltFolder(num_nodes, edges, features, target, labels, int(num_classes), **sets)


def _read_edges(path: Path) -> np.ndarray:
    edges: np.ndarray = np.load(path)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"{path} has shape {edges.shape}, not (2, E)")
    return edges.astype(np.int64, copy=False)
