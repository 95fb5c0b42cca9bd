"""Reads what a daemon has stored, without the daemon: datasets by numpy alone."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Optional

import numpy as np


def digests(folder: Path, *besides: str) -> dict[str, str]:
    """SHA-256 of each file in a folder and those below it, but for files named `besides`."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*") if path.is_file() and path.name not in besides}


def plan_digests(data_dir: Path, name: str) -> dict[str, str]:
    """SHA-256 of each file of a plan, but for those that tell times."""
    return digests(data_dir / "plans" / name, "about.json", "last_use")


_JOB_STATES = ("", "queued", "preparing", "running", "succeeded", "failed", "cancelled", "waiting")


def job_states(data_dir: Path) -> dict[str, str]:
    """The state of each job by its id, as the database of a daemon that died has it. The
    database must be sound; it is not touched."""
    with tempfile.TemporaryDirectory() as folder:
        for path in data_dir.glob("hearth.db*"):
            if path.suffix in (".db", ".db-wal"):
                shutil.copy(path, folder)
        with sqlite3.connect(Path(folder) / "hearth.db") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            rows = connection.execute("SELECT kind, number, state FROM jobs").fetchall()
        connection.close()
    return {f"{kind}-{number}": _JOB_STATES[state] for kind, number, state in rows}


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
