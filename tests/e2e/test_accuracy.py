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
# The results of tests/accuracy/pyg_reference.py, seed by seed; of "ladies", those of
# ladies_reference.py.
_REFERENCE = json.loads((_ROOT / "tests/accuracy/wordnet_reference.json").read_text())
_TRAIN = ("train", "--batch-size", "1024", "--epochs", "5", "--lr", "0.003", "--dropout", "0.2")
_FANOUTS = ("--dataset", "wordnet", "--hidden", "256", "--fanouts", "10,10,10")
_LADIES = ("--dataset", "wordnet", "--hidden", "256", "--sampler", "ladies",
           "--layer-nodes", "512,512,512")
_SEEDS = ("1", "2", "3")
# Those of pyg_relational_reference.py, with its settings.
_RELATIONAL = json.loads((_ROOT / "tests/accuracy/wordnet_relational_reference.json").read_text())
_TYPED = ("--dataset", "wordnet-types", "--fanouts", "5,5", "--hidden", "64")


def convert(folder: Path, *flags: str) -> Path:
    if not (_WORDNET / "data.noun").exists():
        pytest.skip("WordNet is absent: install Debian's package wordnet-base")
    subprocess.run([sys.executable, "-m", "hearth.datasets.wordnet", "--source", str(_WORDNET),
                    "--output", str(folder), *flags], check=True,
                   env={**os.environ, "PYTHONPATH": str(_ROOT / "client/python")})
    return folder


@pytest.fixture(scope="module")
def wordnet(daemon, tmp_path_factory):
    folder = convert(tmp_path_factory.mktemp("source") / "wordnet")
    daemon.import_graph("wordnet", folder, "--in-place")
    return daemon


@pytest.fixture(scope="module")
def wordnet_types(daemon, tmp_path_factory):
    folder = convert(tmp_path_factory.mktemp("source") / "types", "--heterogeneous",
                     "--without-words")
    daemon.json("dataset", "import", "wordnet-types", "--source", str(folder))
    return daemon


def train(daemon, options, model, seed) -> float:
    """The test accuracy of a job that takes minutes."""
    command = daemon.command(*_TRAIN, *options, "--model", model, "--seed", seed, "--output", "json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=True)
    return json.loads(done.stdout)["report"]["test_metric"]


def train_in_pyg(daemon, kind, seed) -> float:
    """The test accuracy of a model of PyG, trained as `train` does on hearth.torch's batches."""
    torch = pytest.importorskip("torch")
    sys.path.append(str(_ROOT / "tests/accuracy"))
    import hearth
    import hearth.torch
    from pyg_models import Model, ModelConfig
    from pyg_reference import Batch, accuracy, scores_of_trimmed, train_epoch

    def batches(loader):
        for batch in loader:
            yield Batch(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.y)

    torch.manual_seed(seed)
    options = {"dataset": "wordnet", "num_neighbors": [10, 10, 10], "batch_size": 1024,
               "seed": seed}
    with hearth.Client(f"unix:{daemon.data_dir}/hearth.sock") as client, \
            hearth.torch.NeighborLoader(client, split="train", **options) as training, \
            hearth.torch.NeighborLoader(client, split="test", **options) as test:
        (nodes,) = client.dataset("wordnet").node_types
        model = Model(ModelConfig(kind, nodes.feature_dim, 256, nodes.label_width, 3, 4, 0.2))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
        for _ in range(5):
            train_epoch(model, optimizer, batches(training), scores_of_trimmed)
        return accuracy(model, batches(test), scores_of_trimmed)


@pytest.mark.full("accuracy")
@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2", "gin"])
def test_accuracy_reaches_pyg(wordnet, model, capsys):
    accuracies = [train(wordnet, _FANOUTS, model, seed) for seed in _SEEDS]
    reference = [run["test_accuracy"] for run in _REFERENCE[model]]
    mean = sum(accuracies) / len(accuracies)
    with capsys.disabled():
        print(f"\n{model}: {[round(a, 4) for a in accuracies]}, mean {mean:.4f}; "
              f"PyG: mean {sum(reference) / len(reference):.4f}")
    assert mean > sum(reference) / len(reference) - 0.01


@pytest.mark.full("accuracy")
@pytest.mark.parametrize("model", ["sage", "gat"])
def test_models_of_pyg_over_the_daemons_batches_reach_its_own(wordnet, model, tell):
    own = [train_in_pyg(wordnet, model, int(seed)) for seed in _SEEDS]
    native = [train(wordnet, _FANOUTS, model, seed) for seed in _SEEDS]
    tell(f"{[round(a, 4) for a in own]}; jobs {[round(a, 4) for a in native]}")
    assert abs(sum(own) - sum(native)) / len(_SEEDS) < 0.005


@pytest.mark.full("accuracy")
def test_layer_wise_sampling_reaches_its_reference(wordnet, tell):
    accuracies = [train(wordnet, _LADIES, "sage", seed) for seed in _SEEDS]
    reference = [run["test_accuracy"] for run in _REFERENCE["ladies"]]
    tell(f"{[round(a, 4) for a in accuracies]}; in numpy {[round(a, 4) for a in reference]}")
    assert abs(sum(accuracies) - sum(reference)) / len(reference) < 0.01


@pytest.mark.full("accuracy")
@pytest.mark.parametrize(("model", "options"),
                         [("rsage", ()), ("rgcn", ()), ("rgat", ("--heads", "2"))],
                         ids=["rsage", "rgcn", "rgat"])
def test_relational_models_reach_pyg(wordnet_types, model, options, tell):
    accuracies = [train(wordnet_types, (*_TYPED, *options), model, seed) for seed in _SEEDS]
    reference = [run["test_accuracy"] for run in _RELATIONAL[model]]
    tell(f"{[round(a, 4) for a in accuracies]}; PyG {[round(a, 4) for a in reference]}")
    assert abs(sum(accuracies) - sum(reference)) / len(reference) < 0.005
