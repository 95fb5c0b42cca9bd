"""Graphs made up by the daemon, in every format, and checks of what is stored."""

from __future__ import annotations

import numpy as np
import pytest

from stored import StoredDataset

SIZE = ("--nodes", "2000", "--edges", "16000", "--dim", "16", "--classes", "4",
        "--train", "0.3", "--valid", "0.2", "--test", "0.2")
FORMATS = ["numpy", "edge-list", "graphbolt", "ogb", "mag240m", "igb", "ginex", "diskgnn"]


def test_labels_can_be_learned_from_features_and_neighbors(daemon):
    daemon.json("dataset", "generate", "made-up", *SIZE, "--seed", "3")
    report = daemon.json("train", "--dataset", "made-up", "--strategy", "memory", "--model",
                         "sage", "--hidden", "32", "--epochs", "8", "--lr", "0.01",
                         "--batch-size", "128")["report"]
    assert report["metric"] == "accuracy"
    assert report["test_metric"] > 0.5


def edges_cut(daemon, name):
    """The share of the edges that a partition into twenty parts cuts."""
    made = daemon.json("prepare", "--dataset", name, "--partition", "--order", "partition",
                       "--parts", "20", "--partition-rounds", "3")["report"]["partition"]
    facts = {fact["name"]: fact["value"]
             for fact in daemon.json("plan", "show", made["plan"])["properties"]}
    return float(facts["edges cut"].split("(")[1].rstrip("%)")) / 100


def test_communities_apart_from_classes_can_be_found_and_labels_learned(daemon):
    size = ("--nodes", "4000", "--edges", "60000", "--undirected", "--dim", "16", "--classes", "4",
            "--train", "0.3", "--valid", "0.2", "--test", "0.2", "--seed", "3")
    daemon.json("dataset", "generate", "classes", *size)
    job = daemon.json("dataset", "generate", "apart", *size, "--communities", "20")
    assert "communities" in daemon.hearth("job", "show", job["id"]).out
    shown = daemon.hearth("dataset", "show", "apart").out
    assert "20 communities of all classes with 0.8 of the edges inside" in shown
    assert edges_cut(daemon, "apart") < edges_cut(daemon, "classes") - 0.3
    report = daemon.json("train", "--dataset", "apart", "--strategy", "memory", "--model",
                         "sage", "--hidden", "32", "--epochs", "8", "--lr", "0.01",
                         "--batch-size", "128")["report"]
    assert report["test_metric"] > 0.5
    refused = daemon.hearth("dataset", "generate", "many", *size, "--communities", "1001", code=None)
    assert refused.code in (1, 2) and "num_communities is 1001" in refused.err


def test_a_seed_tells_the_graph(daemon):
    prints = []
    for name, seed in (("seed-a", "7"), ("seed-c", "8")):
        daemon.json("dataset", "generate", name, *SIZE, "--seed", seed)
        prints.append(StoredDataset(daemon.data_dir, name).edge_list())
    assert not np.array_equal(prints[0], prints[1])
    daemon.hearth("dataset", "delete", "seed-a")
    daemon.json("dataset", "generate", "seed-a", *SIZE, "--seed", "7")
    np.testing.assert_array_equal(StoredDataset(daemon.data_dir, "seed-a").edge_list(), prints[0])


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_comes_back_as_it_went_out(daemon, format, tmp_path):
    if format == FORMATS[0]:
        daemon.json("dataset", "generate", "origin", *SIZE)
    origin = StoredDataset(daemon.data_dir, "origin")
    out = tmp_path / format
    daemon.json("dataset", "export", "origin", "--format", format, "--to", str(out))
    source = next(out.glob("*.txt*")) if format == "edge-list" else out
    name = f"back-{format}"
    daemon.json("dataset", "import", name, "--format", format, "--source", str(source))
    back = StoredDataset(daemon.data_dir, name)
    (edge_type,) = [edges for edges in back.edges if back.edges[edges]["num_edges"]]
    np.testing.assert_array_equal(back.edge_list(edge_type), origin.edge_list())
    if format == "edge-list":
        return
    (node_type,) = [nodes for nodes in back.nodes if "features" in back.nodes[nodes]]
    np.testing.assert_array_equal(back.node_array("labels", node_type),
                                  origin.node_array("labels"))
    features = back.node_array("features", node_type)
    np.testing.assert_allclose(features, origin.node_array("features").astype(features.dtype))


def test_a_flipped_byte_is_found_and_named(daemon):
    daemon.json("dataset", "generate", "spoiled", *SIZE)
    stored = StoredDataset(daemon.data_dir, "spoiled")
    random = np.random.default_rng(1)
    for file in stored.array_files():
        whole = file.read_bytes()
        spoiled = bytearray(whole)
        spoiled[random.integers(len(whole))] ^= 1 << random.integers(8)
        file.write_bytes(spoiled)
        failed = daemon.json("dataset", "verify", "spoiled", code=1)
        assert file.name.removesuffix(".crc") in failed["error"]["message"], file
        file.write_bytes(whole)
    assert daemon.json("dataset", "verify", "spoiled")["state"] == "SUCCEEDED"


def test_a_disk_without_room_is_told_before_the_start(daemon):
    failed = daemon.json("dataset", "generate", "huge", "--nodes", "100000000",
                         "--edges", "100000000000", "--memory-limit", "2GiB", code=1)
    assert "are free" in failed["error"]["message"]
    assert not (daemon.data_dir / "datasets" / "huge.tmp").exists()
