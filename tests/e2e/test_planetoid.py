"""Cora, from the published files to the accuracy that the literature gives for GraphSAGE."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
# The public split, two layers, all neighbors, rows of features scaled to a sum of 1.
_TRAIN = ("train", "--dataset", "cora", "--strategy", "memory", "--model", "sage",
          "--fanouts", "-1,-1", "--hidden", "64", "--batch-size", "140", "--epochs", "200",
          "--lr", "0.01", "--weight-decay", "0.0005", "--dropout", "0.5")


@pytest.fixture(scope="module")
def cora(daemon, tmp_path_factory):
    raw = os.environ.get("HEARTH_PLANETOID_RAW", "")
    if not (Path(raw) / "ind.cora.graph").exists():
        pytest.skip("HEARTH_PLANETOID_RAW does not name a folder with ind.cora.*")
    folder = tmp_path_factory.mktemp("source") / "cora"
    subprocess.run([sys.executable, "-m", "hearth.datasets.planetoid", "--raw", raw, "--name",
                    "cora", "--output", str(folder), "--normalize-features"], check=True,
                   env={**os.environ, "PYTHONPATH": str(_ROOT / "client/python")})
    daemon.json("dataset", "import", "cora", "--source", str(folder))
    return daemon


def test_cora_is_what_it_is_known_to_be(cora):
    shown = cora.json("dataset", "show", "cora")
    nodes, edges = shown["node_types"][0], shown["edge_types"][0]
    assert (nodes["num_nodes"], nodes["feature_dim"], nodes["label_width"]) == (2708, 1433, 7)
    assert (nodes["num_train"], nodes["num_valid"], nodes["num_test"]) == (140, 500, 1000)
    assert edges["num_edges"] == 10556
    assert edges["statistics"]["homophily"] == pytest.approx(0.81, abs=0.005)


def test_accuracy_is_that_of_the_literature(cora, capsys):
    accuracies = [cora.json(*_TRAIN, "--seed", seed)["report"]["test_metric"]
                  for seed in ("1", "2", "3")]
    with capsys.disabled():
        print(f"\ncora: {accuracies}, mean {statistics.mean(accuracies):.3f}")
    assert 0.795 < statistics.mean(accuracies) < 0.825
