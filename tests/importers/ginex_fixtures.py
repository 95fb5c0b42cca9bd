"""Ginex's and GNNDrive's NAME-ginex, by hand from what their preparation writes.

Both make it of an OGB dataset: scipy's COO to CSC conversion, which merges
repeated edges, then flat files without headers and a conf.json with their
shapes. GNNDrive prepares the same files but opens `features-DIM.dat` and
`conf-DIM.json`; of MAG240M it keeps OGB's split as numpy arrays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch

from fixture_arrays import new_folder, random_edges, random_labels, random_split, save_expected

NUM_NODES, NUM_CLASSES, DIM = 34, 4, 8


def make_all(root: Path) -> None:
    _make(root / "ginex", "toy-ginex", suffix="", is_mag=False)
    _make(root / "gnndrive", "mag240m-ginex", suffix=f"-{DIM}", is_mag=True)


def _make(folder: Path, name: str, suffix: str, is_mag: bool) -> None:
    random = np.random.RandomState(41)
    data = new_folder(folder / name)
    edges = random_edges(random, NUM_NODES, NUM_NODES, 140)
    matrix = scipy.sparse.coo_matrix((np.ones_like(edges[0]), (edges[0], edges[1])),
                                     shape=(NUM_NODES, NUM_NODES))
    csc, csr = matrix.tocsc(), matrix.tocsr()
    labels = random_labels(random, NUM_NODES, NUM_CLASSES, np.nan, np.float32)
    split = random_split(random, np.flatnonzero(~np.isnan(labels)))
    arrays = {
        "indptr": csc.indptr.astype(np.int64),
        "indices": csc.indices.astype(np.int64),
        "features": random.randn(NUM_NODES, DIM).astype(np.float32),
        "labels": labels[:, None],
    }
    conf: dict[str, Any] = {"num_nodes": NUM_NODES}
    for part, array in arrays.items():
        array.tofile(data / (f"features{suffix}.dat" if part == "features" else f"{part}.dat"))
        conf[f"{part}_shape"] = list(array.shape)
        conf[f"{part}_dtype"] = str(array.dtype)
    conf["num_classes"] = NUM_CLASSES
    (data / f"conf{suffix}.json").write_text(json.dumps(conf))
    if is_mag:
        torch.save({"train": split["train"], "valid": split["valid"], "test-dev": split["test"]},
                   data / "split_idx.pth")
    else:
        torch.save({part: torch.from_numpy(nodes) for part, nodes in split.items()},
                   data / "split_idx.pth")
    degrees = [torch.from_numpy(np.diff(kind.indptr).astype(np.int64)) + 1e-8
               for kind in (csr, csc)]
    torch.save(degrees[0] / degrees[1], data / "nc_score.pth")
    _save_expected(folder, data, suffix, conf)


def _save_expected(folder: Path, data: Path, suffix: str, conf: dict[str, Any]) -> None:
    """What numpy and torch read, as the projects' lib/data.py opens the files."""
    def read(part: str, file: str) -> np.ndarray:
        flat = np.fromfile(data / file, dtype=conf[f"{part}_dtype"])
        return flat.reshape(conf[f"{part}_shape"])

    indptr = read("indptr", "indptr.dat")
    destinations = np.repeat(np.arange(NUM_NODES), np.diff(indptr))
    split = torch.load(data / "split_idx.pth")
    save_expected(
        folder / "expected",
        edges={"": np.stack([read("indices", "indices.dat"), destinations])},
        features={"": read("features", f"features{suffix}.dat")},
        labels={"": read("labels", "labels.dat")[:, 0]},
        split={part.removesuffix("-dev"): {"": np.asarray(nodes)} for part, nodes in split.items()},
        facts={"num_nodes": NUM_NODES, "num_classes": NUM_CLASSES})
