"""Formats of other projects: what the daemon imports is what their own readers read.

The fixtures and the readers' dumps are those of tests/importers.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from stored import StoredDataset

FIXTURES = Path(__file__).resolve().parents[1] / "importers" / "fixtures"


class Case(NamedTuple):
    fixture: str
    source: str
    format: str
    flags: tuple = ()
    # expected/ names of features and labels where they are not the usual ones.
    features: str = "features{type}"
    labels: str = "labels{type}"


CASES = [
    Case("diskgnn", "toy-offgs", "diskgnn"),
    Case("diskgnn_int64", "toy-offgs", "diskgnn"),
    Case("ginex", "toy-ginex", "ginex"),
    Case("gnndrive", "mag240m-ginex", "ginex"),
    Case("graphbolt_homogeneous", "dataset", "graphbolt", features="features.feat"),
    Case("graphbolt_homogeneous_int64", "dataset", "graphbolt", features="features.feat"),
    Case("graphbolt_heterogeneous", "dataset", "graphbolt", features="features{type}___feat"),
    Case("graphbolt_heterogeneous_int64", "dataset", "graphbolt",
         features="features{type}___feat"),
    Case("igb_tiny", "tiny", "igb", labels="labels.paper.19"),
    Case("igb_tiny", "tiny", "igb", ("--igb-classes", "2983"), labels="labels.paper.2K"),
    Case("igbh_tiny", "tiny", "igb", labels="labels{type}.19"),
    Case("igbh_large_headerless", "large", "igb", labels="labels{type}.19"),
    Case("mag240m", "mag240m_kddcup2021", "mag240m"),
    Case("ogb_arxiv", "ogbn_arxiv", "ogb"),
    Case("ogb_mag", "ogbn_mag", "ogb"),
    Case("ogb_papers100M", "ogbn_papers100M", "ogb"),
    Case("ogb_products", "ogbn_products", "ogb"),
]


def expect_same_edges(stored: StoredDataset, expected: Path) -> None:
    files = sorted(expected.glob("edges*.npy"))
    assert files
    for file in files:
        relation = file.name[len("edges"):-len(".npy")].lstrip(".").replace("___", ":")
        edges = stored.edge_list(relation if relation in stored.edges else "edge")
        np.testing.assert_array_equal(edges, np.load(file), err_msg=file.name)


def expect_same_nodes(stored: StoredDataset, expected: Path, case: Case) -> int:
    compared = 0
    for node_type in stored.nodes:
        suffix = "" if node_type == "node" else f".{node_type}"
        file = expected / f"{case.features.format(type=suffix)}.npy"
        if file.exists():
            np.testing.assert_array_equal(
                stored.node_array("features", node_type), np.load(file).astype(
                    stored.node_array("features", node_type).dtype), err_msg=file.name)
            compared += 1
        file = expected / f"{case.labels.format(type=suffix)}.npy"
        if file.exists():
            labels = np.load(file).reshape(-1).astype(np.float64)
            labels = np.where(np.isnan(labels), -1, labels)
            np.testing.assert_array_equal(stored.node_array("labels", node_type), labels)
            compared += 1
        for part in ("train", "valid", "test"):
            file = expected / f"{part}{suffix}.npy"
            if file.exists():
                np.testing.assert_array_equal(stored.node_array(part, node_type), np.load(file))
                compared += 1
    return compared


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fixture + "".join(case.flags[1:]))
def test_what_is_imported_is_what_the_tool_itself_reads(daemon, case):
    name = f"imported-{CASES.index(case)}"
    job = daemon.json("dataset", "import", name, "--source",
                      str(FIXTURES / case.fixture / case.source), *case.flags)
    assert job["state"] == "SUCCEEDED"
    log = daemon.hearth("job", "logs", job["id"]).out
    assert f"taken for {case.format}" in log
    stored = StoredDataset(daemon.data_dir, name)
    expected = FIXTURES / case.fixture / "expected"
    expect_same_edges(stored, expected)
    assert expect_same_nodes(stored, expected, case) > 0
    facts = json.loads((expected / "facts.json").read_text())
    counts = facts["num_nodes"]
    if isinstance(counts, int):
        counts = {"node": counts}
    stored_counts = {name: nodes["num_nodes"] for name, nodes in stored.nodes.items()}
    for node_type, count in counts.items():
        assert stored_counts.get(node_type, stored_counts.get("node")) == count
    assert daemon.json("dataset", "verify", name)["report"]["bytes"] > 0


@pytest.mark.parametrize("fixture", ["graphbolt_homogeneous", "graphbolt_heterogeneous"])
def test_preprocessed_graphbolt_is_the_same_graph(daemon, fixture, tmp_path):
    source = tmp_path / "dataset"
    shutil.copytree(FIXTURES / fixture / "dataset", source)
    for entry in source.iterdir():
        if entry.name != "preprocessed":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    name = f"preprocessed-{fixture}"
    daemon.json("dataset", "import", name, "--source", str(source))
    stored = StoredDataset(daemon.data_dir, name)
    expect_same_edges(stored, FIXTURES / fixture / "expected")


def test_edge_list_with_any_ids(daemon, tmp_path):
    source = tmp_path / "friends.txt"
    source.write_text("# who knows whom\nanna\tbert\nbert\tcarl\ncarl\tanna\nanna\tbert\n")
    refused = daemon.json("dataset", "import", "friends", "--source", str(source),
                          "--format", "edge-list", code=1)
    assert "friends.txt: line 2" in refused["error"]["message"]
    daemon.json("dataset", "import", "friends", "--source", str(source), "--format", "edge-list",
                "--relabel", "--dedup", "--undirected")
    stored = StoredDataset(daemon.data_dir, "friends")
    np.testing.assert_array_equal(stored.edge_list(),
                                  [[1, 2, 0, 2, 0, 1], [0, 0, 1, 1, 2, 2]])
    failed = daemon.json("train", "--dataset", "friends", "--strategy", "memory",
                         "--model", "sage", code=1)
    assert "features" in failed["error"]["message"]


def test_undirected_heterograph_has_types_of_reverse_edges(daemon):
    source = str(FIXTURES / "mag240m" / "mag240m_kddcup2021")
    daemon.json("dataset", "import", "directed", "--source", source)
    daemon.json("dataset", "import", "undirected", "--source", source, "--undirected")
    directed = StoredDataset(daemon.data_dir, "directed")
    undirected = StoredDataset(daemon.data_dir, "undirected")
    assert set(undirected.edges) - set(directed.edges) == {
        "institution:rev_affiliated_with:author", "paper:rev_writes:author"}
    for name, edges in directed.edges.items():
        forward = directed.edge_list(name)
        source_type, relation, destination_type = name.split(":")
        if source_type == destination_type:
            both = np.concatenate([forward, forward[::-1]], axis=1)
            order = np.lexsort((both[0], both[1]))
            np.testing.assert_array_equal(undirected.edge_list(name), both[:, order])
            continue
        np.testing.assert_array_equal(undirected.edge_list(name), forward)
        reverse_name = f"{destination_type}:rev_{relation}:{source_type}"
        reverse = undirected.edges[reverse_name]
        assert (reverse["source_type"], reverse["destination_type"]) == (
            edges["destination_type"], edges["source_type"])
        backward = undirected.edge_list(reverse_name)
        order = np.lexsort((backward[1], backward[0]))
        np.testing.assert_array_equal(backward[::-1, order], forward)
        assert (f"{reverse_name}: added, the reverse of {name}"
                in undirected.manifest["transforms"])
    assert daemon.json("dataset", "verify", "undirected")["report"]["bytes"] > 0


def neighbor_means(edges, rows, num_nodes):
    """Means of rows over (neighbors, nodes), as they are stored; 0 without neighbors."""
    sums = np.zeros((num_nodes, rows.shape[1]))
    np.add.at(sums, edges[1], rows[edges[0]].astype(np.float64))
    counts = np.bincount(edges[1], minlength=num_nodes)
    return (sums / np.maximum(counts, 1)[:, None]).astype(np.float32).astype(rows.dtype)


def test_features_are_filled_type_after_type(daemon):
    daemon.json("dataset", "import", "filled", "--fill-features", "mean", "--memory-limit", "1MiB",
                "--source", str(FIXTURES / "mag240m" / "mag240m_kddcup2021"))
    stored = StoredDataset(daemon.data_dir, "filled")
    papers = stored.node_array("features", "paper")
    assert papers.dtype == np.float16
    authors = neighbor_means(stored.edge_list("author:writes:paper")[::-1], papers,
                             stored.nodes["author"]["num_nodes"])
    np.testing.assert_array_equal(stored.node_array("features", "author"), authors)
    institutions = neighbor_means(stored.edge_list("author:affiliated_with:institution"), authors,
                                  stored.nodes["institution"]["num_nodes"])
    np.testing.assert_array_equal(stored.node_array("features", "institution"), institutions)
    assert ("institution: features are the means over author:affiliated_with:institution"
            in stored.manifest["transforms"])
    assert daemon.json("dataset", "verify", "filled")["report"]["bytes"] > 0


def test_training_without_features_of_a_node_type_says_which(daemon):
    daemon.json("dataset", "import", "mag", "--source", str(FIXTURES / "ogb_mag" / "ogbn_mag"))
    failed = daemon.json("train", "--dataset", "mag", "--strategy", "memory",
                         "--model", "rsage", code=1)
    assert 'features of nodes of type "' in failed["error"]["message"]
    shown = daemon.hearth("dataset", "show", "mag").out
    assert "author:writes:paper" in shown


def test_nothing_known_is_told_what_is(daemon, tmp_path):
    (tmp_path / "stuff").mkdir()
    (tmp_path / "stuff" / "readme.md").write_text("hello")
    failed = daemon.json("dataset", "import", "stuff", "--source", str(tmp_path / "stuff"), code=1)
    for format in ("numpy", "graphbolt", "ogb", "igb", "ginex", "diskgnn", "mag240m"):
        assert format in failed["error"]["message"]
