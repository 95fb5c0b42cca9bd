"""Importing, listing, showing and deleting datasets."""

from __future__ import annotations

import numpy as np

from jobs import LONG, QUICK


def names(daemon):
    return [dataset["name"] for dataset in daemon.json("dataset", "list")["datasets"]]


def test_import_reports_what_it_read(daemon, graph, graph_folder):
    job = daemon.import_graph("reported", graph_folder)
    assert job["state"] == "SUCCEEDED"
    assert job["report"]["num_nodes"] == len(graph.node_label)
    assert job["report"]["num_edges"] == graph.edge_index.shape[1]
    assert job["report"]["feature_dim"] == graph.node_feat.shape[1]
    assert job["report"]["label_kind"] == "CLASSES"
    assert job["report"]["label_width"] == 4
    assert job["report"]["bytes_written"] >= graph.node_feat.nbytes


def test_show_tells_what_there_is(daemon, graph):
    shown = daemon.json("dataset", "show", "planted")
    node_type = shown["node_types"][0]
    assert node_type["num_nodes"] == len(graph.node_label)
    assert node_type["feature_dtype"] == "float32"
    assert node_type["feature_path"] == ""
    assert (node_type["num_train"], node_type["num_valid"], node_type["num_test"]) == (
        len(graph.train_idx), len(graph.valid_idx), len(graph.test_idx))
    assert shown["edge_types"][0]["num_edges"] == graph.edge_index.shape[1]
    assert "planted" in daemon.hearth("dataset", "list").out
    assert "float32" in daemon.hearth("dataset", "show", "planted").out


def test_deleted_datasets_are_gone(daemon, graph_folder):
    daemon.import_graph("brief", graph_folder)
    assert "brief" in names(daemon)
    daemon.hearth("dataset", "delete", "brief")
    assert "brief" not in names(daemon)
    daemon.hearth("dataset", "show", "brief", code=1)
    daemon.import_graph("brief", graph_folder)


def test_a_name_is_taken_once(daemon, graph_folder):
    refused = daemon.hearth("dataset", "import", "planted", "--source", str(graph_folder), code=1)
    assert "planted" in refused.err


def test_names_that_are_paths_are_refused(daemon, graph_folder):
    for name in ("../escape", "a/b", ".hidden", "", "x" * 129):
        daemon.hearth("dataset", "import", name, "--source", str(graph_folder), code=2)


def test_features_in_place_are_not_copied(daemon, graph, graph_folder):
    job = daemon.import_graph("in-place", graph_folder, "--in-place")
    assert job["report"]["bytes_written"] < graph.node_feat.nbytes + 2 * graph.edge_index.nbytes
    features = daemon.json("dataset", "show", "in-place")["node_types"][0]["feature_path"]
    assert features == str(graph_folder / "node_feat.npy")
    used = daemon.json(*QUICK, "--dataset", "in-place")["report"]
    assert used["loss_digest"] == daemon.json(*QUICK)["report"]["loss_digest"]
    daemon.hearth("dataset", "delete", "in-place")
    assert (graph_folder / "node_feat.npy").exists()


def test_a_file_that_changed_in_place_is_noticed(daemon, graph, tmp_path):
    folder = graph.write(tmp_path / "changing")
    daemon.import_graph("changing", folder, "--in-place")
    np.save(folder / "node_feat.npy", graph.node_feat + 1)
    failed = daemon.json(*QUICK, "--dataset", "changing", code=1)
    assert "node_feat.npy" in failed["error"]["message"]


def test_layouts_of_one_graph_train_the_same(daemon, graph, tmp_path):
    """CSC, edges as rows, Fortran order and narrow integers are the same graph."""
    expected = daemon.json(*QUICK)["report"]["loss_digest"]

    def digest(name, **arrays):
        folder = graph.write(tmp_path / name)
        for file, array in arrays.items():
            if array is None:
                (folder / f"{file}.npy").unlink()
            else:
                np.save(folder / f"{file}.npy", array)
        daemon.import_graph(name, folder)
        return daemon.json(*QUICK, "--dataset", name)["report"]["loss_digest"]

    indptr, indices = graph.csc()
    assert digest("fortran", node_feat=np.asfortranarray(graph.node_feat)) == expected
    assert digest("pairs", edge_index=np.ascontiguousarray(graph.edge_index.T)) == expected
    assert digest("narrow", edge_index=graph.edge_index.astype(np.int32),
                  node_label=graph.node_label.astype(np.float32),
                  train_idx=graph.train_idx.astype(np.uint16)) == expected
    assert digest("csc", edge_index=None, indptr=indptr, indices=indices) == expected


def test_a_dataset_in_use_is_not_deleted(daemon):
    job = daemon.json(*LONG, "--detach")["id"]
    daemon.wait_for_batches(job, 1)
    refused = daemon.hearth("dataset", "delete", "planted", code=1)
    assert "planted" in refused.err
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
    assert "planted" in names(daemon)
