"""Exported models, and that PyTorch Geometric computes with them what Hearth did."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from graphs import planted_graph
from jobs import QUICK

# Every neighbor, so that there is one right answer.
WHOLE = (*QUICK, "--fanouts", "-1,-1", "--epochs", "2", "--dropout", "0")


def export(daemon, job, folder):
    exported = daemon.json("export", job, "--to", str(folder))
    assert exported["report"]["path"] == str(folder)
    return folder


def test_an_export_has_a_model_and_its_description(daemon, tmp_path):
    job = daemon.json(*QUICK)["id"]
    folder = export(daemon, job, tmp_path / "model")
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "config.json"}
    config = json.loads((folder / "config.json").read_text())
    assert config["model"] == "sage"
    refused = daemon.hearth("export", job, "--to", str(folder), code=1)
    assert str(folder) in refused.err


def test_only_models_are_exported(daemon, tmp_path):
    imported = next(job["id"] for job in daemon.json("job", "list")["jobs"]
                    if job["spec"]["import"])
    for job in ("train-999", imported):
        assert job in daemon.hearth("export", job, "--to", str(tmp_path / "x"), code=1).err
    assert not (tmp_path / "x").exists()


def cross_entropy(logits, labels) -> float:
    logits = logits.astype(np.float64)
    logits = logits - logits.max(axis=1, keepdims=True)
    right = logits[np.arange(len(labels)), labels]
    return float((np.log(np.exp(logits).sum(axis=1)) - right).mean())


MODELS = pytest.mark.parametrize("model", [
    ("sage",), ("gcn",), ("gat", "--heads", "2"), ("gatv2", "--heads", "2"), ("gin",),
])


@MODELS
def test_pyg_gets_the_same_accuracy(daemon, graph, pyg_logits, tmp_path, model):
    job = daemon.json(*WHOLE, "--model", *model)
    logits = pyg_logits(export(daemon, job["id"], tmp_path / "model"), graph.test_idx)
    right = (logits.argmax(axis=1) == graph.node_label[graph.test_idx]).sum()
    expected = job["report"]["test_metric"] * len(graph.test_idx)
    assert abs(int(right) - expected) <= 1  # A tie may fall either way.
    assert expected / len(graph.test_idx) > 0.5


@MODELS
def test_pyg_gets_the_same_loss(daemon, graph, pyg_logits, tmp_path, model):
    """One batch an epoch: the second epoch's loss is that of the model after the first."""
    options = (*WHOLE, "--model", *model, "--batch-size", str(len(graph.train_idx)))
    once = daemon.json(*options, "--epochs", "1")
    twice = daemon.json(*options, "--epochs", "2")
    logits = pyg_logits(export(daemon, once["id"], tmp_path / "model"), graph.train_idx)
    expected = cross_entropy(logits, graph.node_label[graph.train_idx])
    assert twice["report"]["epochs"][1]["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def looped(daemon, tmp_path_factory):
    """Regression graphs with self loops and duplicate edges: the edges of each, by its dataset."""
    plain = planted_graph(num_nodes=200, dim=8, degree=5)
    random = np.random.default_rng(4)
    nodes = np.arange(200)
    plain = plain._replace(
        node_label=random.standard_normal((200, 1)).astype(np.float32),
        edge_index=np.concatenate([plain.edge_index, plain.edge_index[:, ::7]], axis=1))
    loops = {"loops-all": nodes, "loops-some": nodes[::3],
             "loops-twice": np.concatenate([nodes[::3], nodes[::3]]), "loops-added": nodes}
    graphs = {}
    for name, at in loops.items():
        graph = plain._replace(
            edge_index=np.concatenate([plain.edge_index, np.stack([at, at])], axis=1))
        added = name == "loops-added"
        source = (plain if added else graph).write(tmp_path_factory.mktemp("looped") / name)
        daemon.import_graph(name, source, "--labels", "targets",
                            *(("--self-loops", "add") if added else ()))
        graphs[name] = graph
    return graphs


@pytest.mark.parametrize("model", [
    ("sage",), ("gcn",), ("gat", "--heads", "2"), ("gatv2", "--heads", "2"), ("gin",),
    ("rgcn",), ("rsage",), ("rgat", "--heads", "2"),
    ("gcn", "--trainers", "2"), ("gcn", "--strategy", "gnndrive"),
    ("gcn", "--history", "on", "--history-cache", "64KiB"),
], ids="-".join)
def test_pyg_scores_graphs_with_self_loops_alike(daemon, looped, tmp_path, model):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    sys.path.append(str(Path(__file__).parents[1] / "accuracy"))
    from pyg_load import load_model

    for name, graph in looped.items():
        job = daemon.json(*WHOLE, "--dataset", name, "--model", *model)
        network = load_model(export(daemon, job["id"], tmp_path / name))
        x, edges = torch.from_numpy(graph.node_feat), torch.from_numpy(graph.edge_index)
        with torch.no_grad():
            scores = (network({"node": x}, {("node", "edge", "node"): edges})
                      if model[0].startswith("r") else network(x, edges)).double().numpy()
        tested = graph.test_idx
        error = ((scores[tested] - graph.node_label[tested]) ** 2).mean()
        assert job["report"]["test_metric"] == pytest.approx(error, rel=1e-5), name
