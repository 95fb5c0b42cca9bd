"""GraphBolt's OnDiskDataset: raw folders, and what GraphBolt itself makes and reads of them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import dgl.graphbolt as gb
import numpy as np
import torch
import yaml

from fixture_arrays import (new_folder, random_edges, random_labels, random_split, save,
                            save_expected)


def make_all(root: Path) -> None:
    _homogeneous(root / "graphbolt_homogeneous", seed_field="seeds", id_dtype=np.int64)
    _homogeneous(root / "graphbolt_homogeneous_int64", seed_field="seed_nodes", id_dtype=np.int32,
                 auto_cast_to_optimal_dtype=False, include_original_edge_id=True)
    _heterogeneous(root / "graphbolt_heterogeneous")
    _heterogeneous(root / "graphbolt_heterogeneous_int64", auto_cast_to_optimal_dtype=False,
                   include_original_edge_id=True)


def _homogeneous(folder: Path, seed_field: str, id_dtype: Any, **options: bool) -> None:
    random = np.random.RandomState(11)
    data = new_folder(folder / "dataset")
    num_nodes = 30
    edges = random_edges(random, num_nodes, num_nodes, 120)
    lines = "".join(f"{source},{destination}\n" for source, destination in edges.T)
    (data / "edges").mkdir()
    (data / "edges/bond.csv").write_text(lines)
    # GraphBolt replaces every "pt" in this path by "npy", also those in names.
    save(data / "data/captured_opt.npy", random.randn(num_nodes, 5).astype(np.float32))
    save(data / "data/age.npy", random.rand(num_nodes).astype(np.float32))
    torch.save(torch.from_numpy(random.randn(num_nodes, 3)), data / "data/embedding.pt")
    save(data / "data/weight.npy", random.rand(edges.shape[1]).astype(np.float32))
    labels = random_labels(random, num_nodes, 4)
    tasks = {"name": "node_classification", "num_classes": 4}
    for name, nodes in _sets(random_split(random, np.arange(num_nodes))):
        save(data / f"set/{name}_seeds.npy", nodes.astype(id_dtype))
        save(data / f"set/{name}_labels.npy", labels[nodes])
        tasks[name] = [{"data": [_item(seed_field, f"set/{name}_seeds.npy"),
                                 _item("labels", f"set/{name}_labels.npy")]}]
    _write_yaml(data, {
        "dataset_name": "toy",
        "graph": {
            "nodes": [{"num": num_nodes}],
            "edges": [{"format": "csv", "path": "edges/bond.csv"}],
            "feature_data": [{"domain": "edge", "name": "weight", "format": "numpy",
                              "path": "data/weight.npy"}],
        },
        "feature_data": [
            _feature("feat", "data/captured_opt.npy", in_memory=False),
            _feature("age", "data/age.npy"),
            {**_feature("embedding", "data/embedding.pt"), "format": "torch"},
        ],
        "tasks": [tasks],
    })
    _read(folder, **options)


def _heterogeneous(folder: Path, **options: bool) -> None:
    random = np.random.RandomState(12)
    data = new_folder(folder / "dataset")
    counts = {"paper": 24, "author": 12, "institution": 5}  # not in the order of names
    relations = {"paper:cites:paper": (70, np.int64), "author:writes:paper": (50, np.int32),
                 "author:affiliated_with:institution": (20, np.int64)}
    for relation, (num_edges, dtype) in relations.items():
        source, _, destination = relation.split(":")
        edges = random_edges(random, counts[source], counts[destination], num_edges)
        save(data / f"edges/{relation.replace(':', '__')}.npy", edges.astype(dtype))
    save(data / "data/paper_feat.npy", random.randn(24, 6).astype(np.float32))
    save(data / "data/author_feat.npy", random.randn(12, 3).astype(np.float16))
    labels = random_labels(random, 24, 3)
    task: dict[str, Any] = {"name": "node_classification", "num_classes": 3}
    for name, nodes in _sets(random_split(random, np.arange(24))):
        save(data / f"set/{name}_seeds.npy", nodes)
        save(data / f"set/{name}_labels.npy", labels[nodes].astype(np.float32))
        task[name] = [{"type": "paper", "data": [_item("seeds", f"set/{name}_seeds.npy"),
                                                 _item("labels", f"set/{name}_labels.npy")]}]
    _write_yaml(data, {
        "dataset_name": "toy_hetero",
        "graph": {
            "nodes": [{"type": kind, "num": num} for kind, num in counts.items()],
            "edges": [{"type": relation, "format": "numpy",
                       "path": f"edges/{relation.replace(':', '__')}.npy"}
                      for relation in relations],
        },
        "feature_data": [{**_feature("feat", "data/paper_feat.npy"), "type": "paper"},
                         {**_feature("feat", "data/author_feat.npy"), "type": "author"}],
        "tasks": [task],
    })
    _read(folder, **options)


def _sets(split: dict[str, np.ndarray]) -> Any:
    return zip(("train_set", "validation_set", "test_set"), split.values())


def _item(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "format": "numpy", "in_memory": True, "path": path}


def _feature(name: str, path: str, in_memory: bool = True) -> dict[str, Any]:
    return {"domain": "node", "name": name, "format": "numpy", "path": path,
            "in_memory": in_memory}


def _write_yaml(folder: Path, value: dict[str, Any]) -> None:
    (folder / "metadata.yaml").write_text(yaml.safe_dump(value, sort_keys=False))


def _read(folder: Path, **options: bool) -> None:
    """Has GraphBolt preprocess `folder/dataset`, loads it and keeps what it holds."""
    # GraphBolt writes the paths that it was given into its file of hashes.
    with contextlib.chdir(folder / "dataset"):
        dataset = gb.OnDiskDataset(".", **options).load()
        assert os.path.exists("preprocessed/fused_csc_sampling_graph.pt")
        expected = _expectations(dataset)
        arrays = {
            "csc_indptr": dataset.graph.csc_indptr,
            "csc_indices": dataset.graph.indices,
            "node_type_offset": dataset.graph.node_type_offset,
            "type_per_edge": dataset.graph.type_per_edge,
            **{f"edge_attribute_{name}": value
               for name, value in (dataset.graph.edge_attributes or {}).items()},
        }
    save_expected(folder / "expected", **expected)
    for name, tensor in arrays.items():
        if tensor is not None:
            save(folder / f"expected/{name}.npy", tensor.numpy())


def _expectations(dataset: Any) -> dict[str, Any]:
    graph, task = dataset.graph, dataset.tasks[0]
    features = {}
    for domain, kind, name in dataset.feature.keys():
        assert domain == "node"
        features[":".join(filter(None, (kind, name)))] = \
            dataset.feature.read(domain, kind, name).numpy()
    split: dict[str, dict[str, np.ndarray]] = {}
    labels: dict[str, np.ndarray] = {}
    for part, items in (("train", task.train_set), ("valid", task.validation_set),
                        ("test", task.test_set)):
        of_types = items._itemsets if isinstance(items, gb.ItemSetDict) else {"": items}
        for kind, items_of_type in of_types.items():
            seeds, classes = items_of_type[:]
            split.setdefault(part, {})[kind] = seeds.numpy()
            # The label of each seed, in the order of the ascending seeds.
            labels[f"{part}:{kind}" if kind else part] = classes.numpy()[np.argsort(seeds.numpy())]
    return {
        "edges": _edges(graph),
        "features": features,
        "labels": labels,
        "split": split,
        "facts": {
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "node_type_to_id": graph.node_type_to_id,
            "edge_type_to_id": graph.edge_type_to_id,
            "task": task.metadata,
        },
    }


def _edges(graph: Any) -> dict[str, np.ndarray]:
    indptr = graph.csc_indptr.numpy().astype(np.int64)
    sources = graph.indices.numpy().astype(np.int64)
    destinations = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    if graph.type_per_edge is None:
        return {"": np.stack([sources, destinations])}
    offsets = graph.node_type_offset.numpy()
    edges = {}
    for relation, number in graph.edge_type_to_id.items():
        source, _, destination = relation.split(":")
        ours = graph.type_per_edge.numpy() == number
        edges[relation] = np.stack([
            sources[ours] - offsets[graph.node_type_to_id[source]],
            destinations[ours] - offsets[graph.node_type_to_id[destination]]])
    return edges
