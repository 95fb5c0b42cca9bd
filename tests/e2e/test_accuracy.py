"""Accuracy on WordNet over three seeds, against PyTorch Geometric's (tier 2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_WORDNET = Path("/usr/share/wordnet")
# The results of tests/accuracy/pyg_reference.py, seed by seed.
_REFERENCE = json.loads((_ROOT / "tests/accuracy/wordnet_reference.json").read_text())
_TRAIN = ("train", "--dataset", "wordnet", "--fanouts", "10,10,10", "--hidden", "256",
          "--batch-size", "1024", "--epochs", "5", "--lr", "0.003", "--dropout", "0.2")


@pytest.fixture(scope="module")
def wordnet(daemon, tmp_path_factory):
    if not (_WORDNET / "data.noun").exists():
        pytest.skip("WordNet is absent: install Debian's package wordnet-base")
    folder = tmp_path_factory.mktemp("source") / "wordnet"
    subprocess.run([sys.executable, "-m", "hearth.datasets.wordnet", "--source", str(_WORDNET),
                    "--output", str(folder)], check=True,
                   env={**os.environ, "PYTHONPATH": str(_ROOT / "client/python")})
    daemon.import_graph("wordnet", folder, "--in-place")
    return daemon


def train(daemon, model, seed) -> float:
    """The test accuracy of a job that takes minutes."""
    command = daemon.command(*_TRAIN, "--model", model, "--seed", seed, "--output", "json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=True)
    return json.loads(done.stdout)["report"]["test_metric"]


@pytest.mark.full("accuracy")
@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2", "gin"])
def test_accuracy_reaches_pyg(wordnet, model, capsys):
    accuracies = []
    for seed in ("1", "2", "3"):
        accuracies.append(train(wordnet, model, seed))
    reference = [run["test_accuracy"] for run in _REFERENCE[model]]
    mean = sum(accuracies) / len(accuracies)
    with capsys.disabled():
        print(f"\n{model}: {[round(a, 4) for a in accuracies]}, mean {mean:.4f}; "
              f"PyG: mean {sum(reference) / len(reference):.4f}")
    assert mean > sum(reference) / len(reference) - 0.01
