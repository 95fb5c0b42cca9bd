"""What partition order and histories cost in accuracy, against exact training in random order, over
seeds (tier 2)."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_WORDNET = Path("/usr/share/wordnet")
_WITHIN = 0.003
_PARTITION = ("--order", "partition")
_HISTORY = (*_PARTITION, "--history", "on")


def import_converted(daemon, name, folder, *converter):
    subprocess.run([sys.executable, "-m", *converter, "--output", str(folder)], check=True,
                   env={**os.environ, "PYTHONPATH": str(_ROOT / "client/python")})
    daemon.json("dataset", "import", name, "--source", str(folder))


def cora(daemon, tmp_path):
    raw = os.environ.get("HEARTH_PLANETOID_RAW", "")
    if not (Path(raw) / "ind.cora.graph").exists():
        pytest.skip("HEARTH_PLANETOID_RAW does not name a folder with ind.cora.*")
    import_converted(daemon, "cora", tmp_path / "cora", "hearth.datasets.planetoid", "--raw", raw,
                     "--name", "cora", "--normalize-features")


def wordnet(daemon, tmp_path):
    if not (_WORDNET / "data.noun").exists():
        pytest.skip("WordNet is absent: install Debian's package wordnet-base")
    import_converted(daemon, "wordnet", tmp_path / "wordnet", "hearth.datasets.wordnet",
                     "--source", str(_WORDNET))


def communities(daemon, _):
    """250 communities of 800 nodes, each of all 16 classes."""
    daemon.json("dataset", "generate", "communities", "--nodes", "200000", "--edges", "3000000",
                "--undirected", "--communities", "250", "--dim", "64", "--train", "0.1", "--seed", "1")


# The data, how a job on it is trained, its seeds, and the options of its history, which holds the
# embeddings of all nodes but in the last case, where it takes a tenth of the features. The first
# two are trained to the end, and must reach the accuracy of exact training. Five epochs of the last
# are not the end: what is lost there is told (tests/accuracy/README.md).
_CASES = {
    "cora": (cora, ("--fanouts=-1,-1", "--hidden", "64", "--batch-size", "16", "--epochs", "30",
                    "--lr", "0.01", "--weight-decay", "0.0005", "--dropout", "0.5"),
             20, ("--history-cache", "4MiB", "--staleness", "4")),
    "wordnet": (wordnet, ("--fanouts", "10,10", "--hidden", "64", "--batch-size", "1024",
                          "--epochs", "60", "--lr", "0.003", "--dropout", "0.2"),
                2, ("--history-cache", "128MiB", "--staleness", "6")),
    "communities": (communities, ("--fanouts", "10,10", "--hidden", "64", "--batch-size", "256",
                                  "--epochs", "5", "--lr", "0.003", "--dropout", "0.2"), 5, ()),
}


def train(daemon, name, options, seed) -> float:
    """The test accuracy of a job that may take minutes."""
    command = daemon.command("train", "--dataset", name, "--model", "sage", *options,
                             "--seed", str(seed), "--output", "json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=True)
    return json.loads(done.stdout)["report"]["test_metric"]


@pytest.mark.full("history")
@pytest.mark.parametrize("name", _CASES)
def test_accuracy_beside_that_of_exact_training(daemon, tmp_path, tell, name):
    make, options, seeds, history = _CASES[name]
    make(daemon, tmp_path)
    means = {}
    for variant, added in (("shuffled, exact", ()), ("partition, exact", _PARTITION),
                           ("partition, history", (*_HISTORY, *history)),
                           ("partition, history, staleness 100",
                            (*_HISTORY, *history, "--staleness", "100"))):
        found = [train(daemon, name, (*options, *added), seed) for seed in range(1, seeds + 1)]
        means[variant] = statistics.mean(found)
        tell(f"{variant}: mean {means[variant]:.4f}, standard deviation "
             f"{statistics.stdev(found):.4f} of {[round(one, 4) for one in found]}")
    if name != "communities":
        assert means["partition, exact"] > means["shuffled, exact"] - _WITHIN
        assert means["partition, history"] > means["shuffled, exact"] - _WITHIN
