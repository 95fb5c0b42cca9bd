"""Reads the datasets that a daemon has stored, by numpy alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

import numpy as np


class StoredDataset:
    def __init__(self, data_dir: Path, name: str) -> None:
        self.folder = data_dir / "datasets" / name
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        self.nodes = {nodes["name"]: nodes for nodes in self.manifest["node_types"]}
        self.edges = {edges["name"]: edges for edges in self.manifest["edge_types"]}

    def _load(self, array: dict) -> np.ndarray:
        """By the manifest, not by the file: arrays in place may have no header."""
        kinds = {"bfloat16": "<u2"}
        values = np.memmap(self.folder / array["path"], kinds.get(array["dtype"], array["dtype"]),
                           "r", array["data_offset"], tuple(array["shape"]))
        return np.array(values)

    def node_array(self, kind: str, node_type: str = "node") -> Optional[np.ndarray]:
        array = self.nodes[node_type].get(kind)
        return self._load(array) if array else None

    def edge_list(self, edge_type: str = "edge") -> np.ndarray:
        """(2, E): sources, destinations; sorted by destination, then source."""
        indptr = self._load(self.edges[edge_type]["indptr"])
        sources = self._load(self.edges[edge_type]["indices"]).astype(np.int64)
        destinations = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        order = np.lexsort((sources, destinations))
        return np.stack([sources[order], destinations[order]])

    def array_files(self) -> list[Path]:
        """Every file of arrays and checksums in the dataset's folder, but for checksums of
        rows, which follow from the others and are made again where they are damaged."""
        return sorted(path for path in self.folder.iterdir()
                      if path.suffix in (".npy", ".crc")
                      and not path.name.endswith(".rows.crc"))
