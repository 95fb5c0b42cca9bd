"""Exported models, and that PyTorch Geometric computes with them what Hearth did."""

from __future__ import annotations

import json

import numpy as np
import pytest

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
