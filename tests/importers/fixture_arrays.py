"""Small random graphs, and the plain files in which a reader's answer is kept."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any, Optional

import numpy as np


def random_edges(random: np.random.RandomState, num_sources: int, num_destinations: int,
                 num_edges: int) -> np.ndarray:
    """int64 (2, E) in no order: degrees are uneven, some pairs come twice, some nodes have none."""
    sources = (num_sources * random.rand(num_edges) ** 2).astype(np.int64)
    destinations = (num_destinations * random.rand(num_edges) ** 1.5).astype(np.int64)
    edges = np.stack([sources, destinations])
    edges[:, -2:] = edges[:, :2]  # two pairs again
    return edges


def random_labels(random: np.random.RandomState, num_nodes: int, num_classes: int,
                  missing: Optional[float] = None, dtype: Any = np.int64) -> np.ndarray:
    """Labels in which every class occurs; every fourth is `missing` if that is given."""
    labels = (np.arange(num_nodes) % num_classes)[random.permutation(num_nodes)].astype(dtype)
    if missing is not None:
        labels[::4] = missing
    return labels


def random_split(random: np.random.RandomState, nodes: np.ndarray) -> dict[str, np.ndarray]:
    """A shuffled 60/20/20 split."""
    order = random.permutation(nodes).astype(np.int64)
    bounds = [len(nodes) * 6 // 10, len(nodes) * 8 // 10]
    return dict(zip(("train", "valid", "test"), np.split(order, bounds)))


def by_destination(edges: np.ndarray) -> np.ndarray:
    """int64 (2, E), sorted by destination and then source."""
    edges = np.asarray(edges, dtype=np.int64)
    return edges[:, np.lexsort((edges[0], edges[1]))]


def new_folder(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def save(path: Path, array: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.asarray(array))


def save_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def save_gzip(path: Path, text: str) -> None:
    """Without name and time, so that the same text gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def save_expected(folder: Path, *, edges: dict[str, np.ndarray], features: dict[str, Any],
                  labels: dict[str, Any], split: dict[str, dict[str, Any]],
                  facts: dict[str, Any]) -> None:
    """Keeps what a reader gave. Keys are types, "" where the graph has none.

    `edges.TYPE.npy` int64 (2, E) sorted by destination and then source, ids
    counted within the type; `features.TYPE.npy` and `labels.TYPE.npy` as read;
    `{train,valid,test}.TYPE.npy` int64 ascending; `facts.json`: the rest.
    """
    new_folder(folder)
    for kind, values in edges.items():
        save(folder / _name("edges", kind), by_destination(values))
    for kind, values in features.items():
        save(folder / _name("features", kind), values)
    for kind, values in labels.items():
        save(folder / _name("labels", kind), values)
    for part, types in split.items():
        for kind, values in types.items():
            save(folder / _name(part, kind), np.sort(np.asarray(values, dtype=np.int64)))
    save_json(folder / "facts.json", facts)


def _name(what: str, kind: str) -> str:
    return f"{what}.{kind.replace(':', '___')}.npy" if kind else f"{what}.npy"
