"""What the scripts of the peers share: Hearth's arrays, and a report like a Hearth job's."""

from __future__ import annotations

import argparse
import dataclasses
import json
import mmap
import os
import re
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Optional

import numpy as np

LEARNING_RATE = 0.003
# Where features are: in memory; mapped, without advice and with MADV_RANDOM; in a
# store of the peer's own that reads the file, without a cache and with one.
FEATURES = ("memory", "normal", "random", "disk", "disk-cached")
# Hearth's strategies, for models of PyG on its batches.
STRATEGIES = ("memory", "gnndrive", "diskgnn")
_PSS_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Graph:
    """Hearth's own files, opened by numpy; features stay on the disk."""

    indptr: np.ndarray  # int64 [N + 1], of the in-neighbors
    indices: np.ndarray  # int32 or int64 [E]
    features: np.ndarray  # [N, dim], mapped
    labels: np.ndarray  # int64 [N]
    train: np.ndarray  # int64

    @property
    def num_classes(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def row_bytes(self) -> int:
        return self.features.shape[1] * self.features.itemsize

    def widths(self, hidden: int, layers: int) -> list[int]:
        """Of a model: its input, what is between its layers, its scores."""
        return [self.features.shape[1], *[hidden] * (layers - 1), self.num_classes]


def feature_file(folder: Path) -> Path:
    return folder / "node.features.npy"


def _open_features(path: Path, where: str) -> np.ndarray:
    if where == "memory":
        return np.load(path)
    # Mapped copy-on-write, because torch wants writable memory; nothing is written.
    features = np.load(path, mmap_mode="c")
    if where == "random":
        features._mmap.madvise(mmap.MADV_RANDOM)
    return features


def open_graph(folder: Path, features: str) -> Graph:
    """`features` is one of FEATURES; of those on the disk, only the shape is of use."""
    return Graph(np.load(folder / "edge.indptr.npy"), np.load(folder / "edge.indices.npy"),
                 _open_features(feature_file(folder), features),
                 np.load(folder / "node.labels.npy").astype(np.int64),
                 np.load(folder / "node.train.npy"))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", type=Path, required=True, help="a dataset's folder")
    parser.add_argument("--features", choices=sorted({*FEATURES, *STRATEGIES}), required=True)
    parser.add_argument("--cache-bytes", type=int, required=True, help="of disk-cached")
    parser.add_argument("--model", choices=("none", "sage"), required=True)
    parser.add_argument("--fanouts", required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--precision", choices=("fp32", "bf16"), required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--server", help="of Hearth: the daemon's address")
    parser.add_argument("--daemon", type=int, help="of Hearth: the daemon's process")
    parser.add_argument("--feed", type=json.loads, help="of Hearth: options of the feed, as JSON")
    parser.add_argument("--ranks", type=int, default=1, help="of PyG: processes that share batches")
    parser.add_argument("--rank", type=int, default=0, help="of PyG: which of them this is")
    parser.add_argument("--rendezvous", help="of PyG: where they meet, such as tcp://HOST:PORT")
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    options.fanouts = [int(part) for part in options.fanouts.split(",")]
    return options


def _own_processes() -> list[int]:
    """This one and its children, the loader's workers."""
    children = []
    for task in Path("/proc/self/task").iterdir():
        children += [int(pid) for pid in _read_live(task / "children").split()]
    return [os.getpid(), *children]


def _read_live(path: Path) -> str:
    """Nothing if its thread or process has ended since it was listed."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _sum(processes: Iterable[int], file: str, names: Iterable[str]) -> int:
    """Of fields of /proc/PID/FILE."""
    total = 0
    for pid in processes:
        text = _read_live(Path(f"/proc/{pid}/{file}"))
        total += sum(int(value) for name in names
                     for value in re.findall(rf"^{name}:\s*(\d+)", text, re.MULTILINE))
    return total


@dataclasses.dataclass(frozen=True)
class Batch:
    """What the loader gives: rows that were fetched, and what a step needs of them."""

    rows: int
    content: Any


class Reporter:
    """Runs epochs and writes what a job of Hearth would report."""

    def __init__(self, row_bytes: int, daemon: Optional[int] = None) -> None:
        """`daemon` is a process that works for this one."""
        self._row_bytes = row_bytes
        self._others = [] if daemon is None else [daemon]
        self._epochs: list[dict[str, Any]] = []
        self._next_look = 0.0
        self.peak_bytes = 0

    def epoch(self, batches: Iterator[Batch], train: Optional[Callable[[Any], None]]) -> None:
        start, read = time.perf_counter(), self._bytes_read()
        starved = busy = 0.0
        rows = count = 0
        while True:
            before = time.perf_counter()
            batch = next(batches, None)
            arrived = time.perf_counter()
            starved += arrived - before
            if batch is None:
                break
            if train is not None:
                train(batch.content)
            busy += time.perf_counter() - arrived
            rows += batch.rows
            count += 1
            self._look_at_memory()
        self._epochs.append({
            "epoch": len(self._epochs) + 1, "seconds": time.perf_counter() - start,
            "batches": count, "rows_needed": rows, "bytes_needed": rows * self._row_bytes,
            "bytes_read": self._bytes_read() - read, "read_ops": None,
            "io_wait_seconds": None,
            "stages": [{"name": "train", "busy_seconds": busy, "starved_seconds": starved,
                        "blocked_seconds": 0.0}]})

    def _bytes_read(self) -> int:
        return _sum([*_own_processes(), *self._others], "io", ["read_bytes"])

    def _look_at_memory(self) -> None:
        """Now and then, as it takes some milliseconds. Pages that processes share count once."""
        if time.monotonic() < self._next_look:
            return
        held = 1024 * _sum([*_own_processes(), *self._others], "smaps_rollup",
                           ["Pss_Anon", "Pss_Shmem"])
        self.peak_bytes = max(self.peak_bytes, held)
        self._next_look = time.monotonic() + _PSS_SECONDS

    def write(self, path: Path, versions: dict[str, str]) -> None:
        path.write_text(json.dumps({"epochs": self._epochs, "peak_memory_bytes": self.peak_bytes,
                                    "versions": versions}))
