"""Small graphs with planted communities, written as the numpy folders that Hearth imports."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

NUM_CLASSES = 4
_SPLITS = {"train": 0.6, "valid": 0.2, "test": 0.2}
_SAME_COMMUNITY = 0.85


class Graph(NamedTuple):
    edge_index: np.ndarray  # int64 (2, E): sources, destinations
    node_feat: np.ndarray  # float32 (N, dim)
    node_label: np.ndarray  # int64 (N)
    train_idx: np.ndarray
    valid_idx: np.ndarray
    test_idx: np.ndarray

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        for name, array in self._asdict().items():
            np.save(folder / f"{name}.npy", array)
        return folder

    def csc(self) -> tuple[np.ndarray, np.ndarray]:
        """indptr and indices: the in-neighbors of each node."""
        sources, destinations = self.edge_index
        order = np.argsort(destinations, kind="stable")
        counts = np.bincount(destinations, minlength=len(self.node_label))
        return np.concatenate([[0], np.cumsum(counts)]), sources[order]


def planted_graph(num_nodes: int = 3000, dim: int = 32, degree: int = 10, seed: int = 1,
                  num_classes: int = NUM_CLASSES) -> Graph:
    """Communities are classes; features tell little, neighbors tell the rest."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, num_classes, num_nodes)
    members = [np.flatnonzero(labels == community) for community in range(num_classes)]
    destinations = np.repeat(np.arange(num_nodes), degree)
    sources = random.integers(0, num_nodes, len(destinations))
    for community in range(num_classes):
        edges = np.flatnonzero(labels[destinations] == community)
        edges = edges[random.random(len(edges)) < _SAME_COMMUNITY]
        sources[edges] = random.choice(members[community], len(edges))
    # Each edge once, and none from a node to itself.
    keys = np.unique((sources * num_nodes + destinations)[sources != destinations])
    centers = random.standard_normal((num_classes, dim))
    features = 0.3 * centers[labels] + random.standard_normal((num_nodes, dim))
    ends = np.cumsum([round(share * num_nodes) for share in _SPLITS.values()])
    train, valid, test = np.split(random.permutation(num_nodes), ends[:-1])
    return Graph(np.stack([keys // num_nodes, keys % num_nodes]), features.astype(np.float32), labels,
                 np.sort(train), np.sort(valid), np.sort(test))
