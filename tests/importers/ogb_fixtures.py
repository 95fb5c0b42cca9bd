"""OGB's node property prediction and MAG240M: folders that ogb reads, and what it gives."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable

import numpy as np
import torch
from ogb.io import DatasetSaver
from ogb.lsc import MAG240MDataset
from ogb.nodeproppred import NodePropPredDataset

from fixture_arrays import (new_folder, random_edges, random_labels, random_split, save,
                            save_expected, save_gzip)

NO_FILES = {"additional node files": "None", "additional edge files": "None"}


def make_all(root: Path) -> None:
    _csv(root / "ogb_arxiv", "ogbn_arxiv", inverse=False, split_name="time")
    _csv(root / "ogb_products", "ogbn_products", inverse=True, split_name="sales_ranking")
    _mag(root / "ogb_mag")
    _papers(root / "ogb_papers100M")
    _mag240m(root / "mag240m")


def _csv(folder: Path, name: str, inverse: bool, split_name: str) -> None:
    random = np.random.RandomState(21)
    data = new_folder(folder / name)
    num_nodes = 36
    edges = random_edges(random, num_nodes, num_nodes, 150)
    raw = data / "raw"
    save_gzip(raw / "edge.csv.gz", _text(edges.T))
    save_gzip(raw / "num-node-list.csv.gz", f"{num_nodes}\n")
    save_gzip(raw / "num-edge-list.csv.gz", f"{edges.shape[1]}\n")
    save_gzip(raw / "node-feat.csv.gz", _floats(random.randn(num_nodes, 7)))
    save_gzip(raw / "node-label.csv.gz", _text(random_labels(random, num_nodes, 5)[:, None]))
    more = {}
    if not inverse:  # as ogbn-arxiv has and ogbn-products has not
        save_gzip(raw / "node_year.csv.gz", _text(random.randint(1990, 2020, (num_nodes, 1))))
        more = {"additional node files": "node_year"}
    _save_split(data / "split" / split_name, random_split(random, np.arange(num_nodes)))
    _finish(folder, name, version=1, split=split_name, classes=5, inverse=inverse, **more)


def _mag(folder: Path) -> None:
    random = np.random.RandomState(22)
    data = new_folder(folder / "ogbn_mag")
    counts = {"author": 14, "field_of_study": 9, "institution": 4, "paper": 26}
    relations = {("author", "affiliated_with", "institution"): 18, ("author", "writes", "paper"): 60,
                 ("paper", "cites", "paper"): 80, ("paper", "has_topic", "field_of_study"): 40}
    raw = data / "raw"
    save_gzip(raw / "num-node-dict.csv.gz",
              ",".join(counts) + "\n" + ",".join(map(str, counts.values())) + "\n")
    save_gzip(raw / "triplet-type-list.csv.gz", "".join(",".join(r) + "\n" for r in relations))
    save_gzip(raw / "nodetype-has-label.csv.gz", _has_paper(counts))
    for number, (relation, num_edges) in enumerate(relations.items()):
        edges = random_edges(random, counts[relation[0]], counts[relation[2]], num_edges)
        place = raw / "relations" / "___".join(relation)
        save_gzip(place / "edge.csv.gz", _text(edges.T))
        save_gzip(place / "num-edge-list.csv.gz", f"{num_edges}\n")
        save_gzip(place / "edge_reltype.csv.gz", f"{number}\n" * num_edges)
    save_gzip(raw / "node-feat/paper/node-feat.csv.gz", _floats(random.randn(26, 6)))
    save_gzip(raw / "node-feat/paper/node_year.csv.gz", _text(random.randint(2010, 2020, (26, 1))))
    save_gzip(raw / "node-label/paper/node-label.csv.gz",
              _text(random_labels(random, 26, 4)[:, None]))
    split = data / "split/time"
    save_gzip(split / "nodetype-has-split.csv.gz", _has_paper(counts))
    _save_split(split / "paper", random_split(random, np.arange(26)))
    _finish(folder, "ogbn_mag", version=2, split="time", classes=4, hetero=True,
            **{"additional node files": "node_year", "additional edge files": "edge_reltype"})


def _papers(folder: Path) -> None:
    """Written by ogb's own DatasetSaver, plus the split as the CSV files that papers100M has."""
    random = np.random.RandomState(23)
    num_nodes = 40
    labels = random_labels(random, num_nodes, 6, missing=np.nan, dtype=np.float32)
    graph = {"edge_index": random_edges(random, num_nodes, num_nodes, 160), "num_nodes": num_nodes,
             "node_feat": random.randn(num_nodes, 8).astype(np.float32),
             "node_year": random.randint(1900, 2020, (num_nodes, 1))}
    split = random_split(random, np.flatnonzero(~np.isnan(labels)))
    new_folder(folder)
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch), _quiet():
        saver = DatasetSaver("ogbn-papers100M", is_hetero=False, version=1)
        saver.save_graph_list([graph])
        saver.save_target_labels(labels[:, None])
        saver.save_split(split, "time")
        shutil.copytree(saver.dataset_dir, folder / "ogbn_papers100M")
    data = folder / "ogbn_papers100M"
    shutil.rmtree(data / "processed")
    (data / "RELEASE_v1.txt").write_text("v1\n")  # the saver writes today's date
    _save_split(data / "split/time", split)
    _finish(folder, "ogbn_papers100M", version=1, split="time", classes=6, binary=True)


def _mag240m(folder: Path) -> None:
    """By hand: no writer of this format is published. ogb's MAG240MDataset reads it."""
    random = np.random.RandomState(24)
    data = new_folder(folder / "mag240m_kddcup2021")
    counts = {"paper": 20, "author": 11, "institution": 4}
    (data / "RELEASE_v1.txt").write_text("v1\n")
    processed = data / "processed"
    save(processed / "paper/node_feat.npy", random.randn(20, 768).astype(np.float16))
    labels = random_labels(random, 20, 3, missing=np.nan, dtype=np.float32)
    save(processed / "paper/node_label.npy", labels)
    save(processed / "paper/node_year.npy", random.randint(2000, 2022, 20).astype(np.int16))
    for relation, num_edges in (("author___affiliated_with___institution", 15),
                                ("author___writes___paper", 50), ("paper___cites___paper", 60)):
        source, _, destination = relation.split("___")
        save(processed / relation / "edge_index.npy",
             random_edges(random, counts[source], counts[destination], num_edges))
    split = random_split(random, np.flatnonzero(~np.isnan(labels)))
    whole = np.concatenate([split["test"], np.flatnonzero(np.isnan(labels))])
    torch.save({**counts, "num_classes": 3}, data / "meta.pt")
    torch.save({"train": split["train"], "valid": split["valid"], "test": whole},
               data / "split_dict.pt")
    torch.save({"train": split["train"], "valid": split["valid"], "test-whole": whole,
                "test-dev": whole[np.arange(len(whole)) % 5 < 3],
                "test-challenge": whole[np.arange(len(whole)) % 5 >= 3]},
               folder / "split_dict_with_test_parts.pt")
    dataset = MAG240MDataset(str(folder))
    relations = {("author", "institution"): "author:affiliated_with:institution",
                 ("author", "paper"): "author:writes:paper", ("paper", "paper"): "paper:cites:paper"}
    save_expected(
        folder / "expected",
        edges={name: dataset.edge_index(*ends) for ends, name in relations.items()},
        features={"paper": dataset.all_paper_feat},
        labels={"paper": dataset.all_paper_label},
        split={part: {"paper": nodes} for part, nodes in dataset.get_idx_split().items()},
        facts={"num_nodes": {"paper": dataset.num_papers, "author": dataset.num_authors,
                             "institution": dataset.num_institutions},
               "num_classes": dataset.num_classes, "years": dataset.all_paper_year.tolist()})


def _finish(folder: Path, name: str, *, version: int, split: str, classes: int,
            inverse: bool = False, hetero: bool = False, binary: bool = False,
            **more: str) -> None:
    """Reads a copy of the folder with ogb's own class and keeps what that gives."""
    (folder / name / f"RELEASE_v{version}.txt").write_text(f"v{version}\n")
    with tempfile.TemporaryDirectory() as scratch, _quiet():
        copy = shutil.copytree(folder / name, Path(scratch) / name)
        (copy / "processed").mkdir()  # ogb's download makes it
        dataset = NodePropPredDataset(name.replace("_", "-"), meta_dict={
            "dir_path": str(copy), "version": version, "download_name": "", "num tasks": 1,
            "task type": "multiclass classification", "eval metric": "acc",
            "num classes": classes, "is hetero": str(hetero), "binary": str(binary),
            "add_inverse_edge": str(inverse), "split": split, **NO_FILES, **more})
        graph, labels = dataset[0]
        parts = dataset.get_idx_split()
    if hetero:
        _save_hetero(folder, graph, labels, parts)
    else:
        _save_homogeneous(folder, graph, labels, parts)


def _save_homogeneous(folder: Path, graph: Any, labels: Any, parts: Any) -> None:
    facts: dict[str, Any] = {"num_nodes": int(graph["num_nodes"]),
                             "edge_index_as_read": graph["edge_index"].tolist()}
    if "node_year" in graph:
        facts["node_year"] = graph["node_year"][:, 0].tolist()
    save_expected(folder / "expected", edges={"": graph["edge_index"]},
                  features={"": graph["node_feat"]}, labels={"": labels[:, 0]},
                  split={part: {"": nodes} for part, nodes in parts.items()}, facts=facts)


def _save_hetero(folder: Path, graph: Any, labels: Any, parts: Any) -> None:
    save_expected(
        folder / "expected",
        edges={":".join(relation): edges for relation, edges in graph["edge_index_dict"].items()},
        features=graph["node_feat_dict"],
        labels={kind: values[:, 0] for kind, values in labels.items()}, split=parts,
        facts={"num_nodes": graph["num_nodes_dict"],
               "node_year": {kind: values[:, 0].tolist()
                             for kind, values in graph["node_year"].items()},
               "edge_reltype": {":".join(relation): values[:, 0].tolist()
                                for relation, values in graph["edge_reltype"].items()}})


def _save_split(folder: Path, split: dict[str, np.ndarray]) -> None:
    for part, nodes in split.items():
        save_gzip(folder / f"{part}.csv.gz", _text(nodes[:, None]))


def _has_paper(counts: dict[str, int]) -> str:
    return ",".join(counts) + "\n" + ",".join(str(kind == "paper") for kind in counts) + "\n"


def _text(rows: np.ndarray) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in rows.tolist())


def _floats(rows: np.ndarray) -> str:
    """Six decimals, as in the published files; a whole, a tiny and a huge number among them."""
    rows = rows.round(6)
    rows[0, 0], rows[1, 1], rows[2, 2] = -3, 1.5e-7, 2.5e20
    return _text(rows)


def _quiet() -> Any:
    """ogb tells of its progress on both streams."""
    stack = contextlib.ExitStack()
    null = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
    redirect: tuple[Callable[..., Any], ...] = (contextlib.redirect_stdout,
                                                contextlib.redirect_stderr)
    for stream in redirect:
        stack.enter_context(stream(null))
    return stack
