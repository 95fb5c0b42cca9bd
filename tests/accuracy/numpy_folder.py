"""Reads the numpy folders that Hearth imports. Features stay on disk, mapped."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np


class NumpyFolder(NamedTuple):
    edge_index: np.ndarray  # int64 (2, E): sources, destinations
    features: np.ndarray  # float32 (N, dim)
    labels: np.ndarray  # int64 (N)
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray

    @property
    def num_nodes(self) -> int:
        return self.features.shape[0]

    @property
    def num_classes(self) -> int:
        return int(self.labels.max()) + 1


def read_numpy_folder(folder: Path) -> NumpyFolder:
    edge_index = np.load(folder / "edge_index.npy")
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"{folder}/edge_index.npy has shape {edge_index.shape}, not (2, E)")
    return NumpyFolder(
        edge_index=edge_index.astype(np.int64, copy=False),
        features=np.load(folder / "node_feat.npy", mmap_mode="r"),
        labels=np.load(folder / "node_label.npy").astype(np.int64, copy=False),
        **{name: np.load(folder / f"{name}_idx.npy") for name in ("train", "valid", "test")},
    )
