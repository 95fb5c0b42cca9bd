"""DiskGNN's NAME-offgs, of a GraphBolt dataset: the statements of its preparation, by hand.

It takes a graph that GraphBolt holds, and with GraphBolt's torch.save that graph
is written here too; so the pickle is the one that its users have.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import dgl.graphbolt as gb
import numpy as np
import torch
import yaml

from fixture_arrays import (new_folder, random_edges, random_labels, random_split, save,
                            save_expected)

NUM_NODES, NUM_CLASSES = 32, 5


def make_all(root: Path) -> None:
    for name, label_dtype, feature_dtype, cast in (
            ("diskgnn", np.float32, np.float32, True),
            ("diskgnn_int64", np.int64, np.float16, False)):
        missing = np.nan if label_dtype == np.float32 else -1
        with tempfile.TemporaryDirectory() as scratch:
            source = Path(scratch)
            _write_source(source, label_dtype, feature_dtype, missing)
            with contextlib.chdir(source):
                dataset = gb.OnDiskDataset(".", auto_cast_to_optimal_dtype=cast).load()
                _prepare(new_folder(root / name), dataset)


def _write_source(folder: Path, label_dtype: Any, feature_dtype: Any, missing: float) -> None:
    random = np.random.RandomState(31)
    save(folder / "edges.npy", random_edges(random, NUM_NODES, NUM_NODES, 130))
    save(folder / "feat.npy", random.randn(NUM_NODES, 9).astype(feature_dtype))
    labels = random_labels(random, NUM_NODES, NUM_CLASSES, missing, label_dtype)
    save(folder / "label.npy", labels[:, None])
    labeled = np.flatnonzero(labels >= 0)  # false for NaN
    task: dict[str, Any] = {"name": "node_classification", "num_classes": NUM_CLASSES}
    for name, nodes in zip(("train_set", "validation_set", "test_set"),
                           random_split(random, labeled).values()):
        save(folder / f"{name}.npy", nodes)
        save(folder / f"{name}_labels.npy", labels[nodes])
        task[name] = [{"data": [{"name": "seed_nodes", "format": "numpy", "path": f"{name}.npy"},
                                {"name": "labels", "format": "numpy",
                                 "path": f"{name}_labels.npy"}]}]
    features = [{"domain": "node", "name": name, "format": "numpy", "path": f"{name}.npy"}
                for name in ("feat", "label")]
    (folder / "metadata.yaml").write_text(yaml.safe_dump({
        "dataset_name": "toy", "graph": {"nodes": [{"num": NUM_NODES}],
                                         "edges": [{"format": "numpy", "path": "edges.npy"}]},
        "feature_data": features, "tasks": [task]}))


def _prepare(folder: Path, dataset: Any) -> None:
    data = folder / "toy-offgs"
    data.mkdir()
    graph = dataset.graph
    features = dataset.feature.read("node", None, "feat")
    labels = dataset.feature.read("node", None, "label").flatten()
    sets = (dataset.tasks[0].train_set, dataset.tasks[0].validation_set,
            dataset.tasks[0].test_set)
    train, valid, test = (items[:][0] for items in sets)
    torch.save(graph, data / "graph.pth")
    features.numpy().tofile(data / "features.bin")
    torch.save(labels, data / "labels.pth")
    torch.save({"train": train, "test": test, "valid": valid}, data / "split_idx.pth")
    conf = {
        "total_num_nodes": graph.total_num_nodes,
        "num_nodes": int(graph.num_nodes),
        "features_shape": list(features.shape),
        "features_dtype": str(features.dtype),
        "feat_itemsize": features.element_size(),
        "labels_shape": list(labels.shape),
        "labels_dtype": str(labels.dtype),
        "num_classes": NUM_CLASSES,
        "label_offset": 0,
    }
    (data / "conf.json").write_text(json.dumps(conf))
    _save_expected(folder, data, conf)


def _save_expected(folder: Path, data: Path, conf: dict[str, Any]) -> None:
    """What torch and numpy read from the files, as DiskGNN's OffgsDataset opens them."""
    graph = torch.load(data / "graph.pth")
    indptr = graph.csc_indptr.numpy()
    destinations = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    dtype = np.dtype(conf["features_dtype"].removeprefix("torch."))
    save_expected(
        folder / "expected",
        edges={"": np.stack([graph.indices.numpy(), destinations])},
        features={"": np.fromfile(data / "features.bin", dtype).reshape(conf["features_shape"])},
        labels={"": torch.load(data / "labels.pth").numpy()},
        split={part: {"": nodes.numpy()}
               for part, nodes in torch.load(data / "split_idx.pth").items()},
        facts={"num_nodes": conf["num_nodes"], "num_classes": conf["num_classes"],
               "indptr_dtype": str(graph.csc_indptr.dtype),
               "indices_dtype": str(graph.indices.dtype)})
