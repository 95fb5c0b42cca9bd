"""Graphs of several node and edge types: the same results with every strategy, models that
PyG loads, refusals, and the formats that have such graphs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from heterographs import Heterograph, planted_heterograph

FIXTURES = Path(__file__).resolve().parents[1] / "importers" / "fixtures"
TRAIN = ("train", "--dataset", "typed", "--fanouts", "5,5", "--hidden", "32", "--batch-size", "64",
         "--epochs", "2", "--lr", "0.01", "--dropout", "0.2", "--seed", "1")
RSAGE = (*TRAIN, "--model", "rsage")
SOME = ("--cpu-cache", "16KiB")
GINEX = ("--cpu-cache", "32KiB")
BY_PARTS = ("--order", "partition", "--parts", "12", "--macro-batch-parts", "3")
MODELS = [("rsage",), ("rgat", "--heads", "2"), ("rgcn",), ("rgcn", "--bases", "2")]


@pytest.fixture(scope="module")
def heterograph() -> Heterograph:
    return planted_heterograph()


@pytest.fixture(scope="module", autouse=True)
def typed(daemon, heterograph, tmp_path_factory) -> None:
    """The dataset `typed`."""
    source = heterograph.write(tmp_path_factory.mktemp("source") / "typed")
    daemon.json("dataset", "import", "typed", "--source", str(source))


@pytest.fixture(scope="module")
def expected(daemon):
    """The digest of training with everything in memory, and its test accuracy."""
    report = daemon.json(*RSAGE, "--strategy", "memory")["report"]
    assert report["test_metric"] > 0.8
    return report["loss_digest"]


@pytest.mark.parametrize("strategy", [
    ("mmap",), ("mmap", "--mmap-advice", "normal", "--samplers", "3"),
    ("gnndrive", *SOME), ("gnndrive", "--cpu-cache", "1GiB", "--extractors", "3"),
    ("gnndrive", "--buffered-reads", "true", "--samplers", "2"),
    ("gids",), ("gids", *SOME, "--window-cache", "16KiB"),
    ("gids", *SOME, "--hot", "out-degree", "--samplers", "3"),
    ("gids", "--merge-max", "1", "--cpu-cache", "0", "--window", "0"),
    ("diskgnn",), ("diskgnn", *SOME, "--disk-limit", "10x", "--samplers", "3"),
    ("diskgnn", "--cpu-cache", "0", "--disk-cache", "0"),
    ("foresight",), ("foresight", *SOME, "--samplers", "3"),
    ("ginex",), ("ginex", *GINEX, "--superbatch", "3", "--samplers", "3"),
    ("ginex", "--cpu-cache", "1MiB", "--neighbor-cache", "0"),
], ids=lambda strategy: "-".join(strategy).replace("--", ""))
def test_every_strategy_trains_as_memory_does(daemon, expected, strategy):
    report = daemon.json(*RSAGE, "--strategy", *strategy)["report"]
    assert report["loss_digest"] == expected
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    assert report["exact"]


@pytest.fixture(scope="module")
def expected_by_parts(daemon):
    """The digest of training by the parts of a partition with everything in memory."""
    return daemon.json(*RSAGE, *BY_PARTS, "--strategy", "memory")["report"]["loss_digest"]


@pytest.mark.parametrize("strategy", [
    ("gnndrive", *SOME), ("gids", *SOME), ("diskgnn", *SOME), ("ginex", *GINEX),
    ("ginex", *GINEX, "--neighbor-rank", "cross"), ("outre",),
    ("outre", *GINEX, "--superbatch", "2", "--samplers", "3"),
    ("outre", "--neighbor-cache", "1MiB"),
], ids=lambda strategy: "-".join(strategy).replace("--", ""))
def test_batches_by_parts_are_those_of_memory(daemon, expected, expected_by_parts, strategy):
    report = daemon.json(*RSAGE, *BY_PARTS, "--strategy", *strategy)["report"]
    assert report["loss_digest"] == expected_by_parts != expected
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]


def test_a_partition_is_of_all_nodes_and_edges(daemon, heterograph, expected_by_parts):
    report = daemon.json(*RSAGE, *BY_PARTS, "--strategy", "outre")["report"]
    assert report["partition"]["reused"]
    partition, = daemon.json("dataset", "show", "typed")["partitions"]
    assert partition["name"] == report["partition"]["plan"]
    edges = sum(pairs.shape[1] for pairs in heterograph.edges.values())
    assert f" of {edges} edges cut" in report["partition"]["reason"]


@pytest.mark.parametrize("options", [
    ("--trainers", "2"), ("--fanout-of", "cites=3,0;author:writes:paper=-1,2"),
    # Which embeddings are kept depends on which neighbors are on disk: ginex keeps others.
    ("--history", "on", "--staleness", "4"),
    ("--sampler", "subgraph", "--fanouts", "3,2"),
], ids=["trainers", "fanouts", "history", "subgraph"])
@pytest.mark.parametrize("model", ["rgat", "rgcn"])
def test_options_of_a_job_mean_the_same_everywhere(daemon, model, options):
    job = (*TRAIN, "--model", model)
    plain = daemon.json(*job, "--strategy", "mmap")["report"]["loss_digest"]
    strategies = [("mmap",), ("gnndrive", *SOME), ("gids", *SOME)]
    if "--history" not in options:
        strategies += [("diskgnn", *SOME), ("ginex", *GINEX)]
    digests = {daemon.json(*job, *options, "--strategy", *strategy)["report"]["loss_digest"]
               for strategy in strategies}
    assert len(digests) == 1 and plain not in digests


@pytest.mark.parametrize("strategy", [("gnndrive", *SOME), ("outre", *GINEX, *BY_PARTS)],
                         ids=["gnndrive", "outre"])
def test_a_killed_job_goes_on_with_the_same_losses(start_daemon, heterograph, tmp_path, strategy):
    daemon = start_daemon()
    daemon.json("dataset", "import", "typed", "--source", str(heterograph.write(tmp_path / "typed")))
    job = (*RSAGE, "--strategy", *strategy, "--epochs", "10", "--checkpoint-every", "5")
    digest = daemon.json(*job)["report"]["loss_digest"]
    process = daemon.begin(*job)
    daemon.wait_for_batches("train-3", 30)
    daemon.kill()
    daemon.start()
    process.communicate()
    assert daemon.wait_for_state("train-3", "SUCCEEDED") == "SUCCEEDED"
    assert daemon.json("job", "show", "train-3")["report"]["loss_digest"] == digest


@pytest.mark.parametrize("model", MODELS, ids="-".join)
def test_pyg_predicts_the_same_with_an_exported_model(daemon, heterograph, model, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    sys.path.append(str(Path(__file__).parents[1] / "accuracy"))
    from pyg_load import load_model

    trained = daemon.json(*TRAIN, "--model", *model, "--strategy", "gnndrive", *SOME,
                          "--fanouts=-1,-1", "--epochs", "3")
    daemon.json("export", trained["id"], "--to", str(tmp_path / "model"))
    with torch.no_grad():
        logits = load_model(tmp_path / "model")(
            {name: torch.from_numpy(rows.astype(np.float32))
             for name, rows in heterograph.features.items()},
            {key: torch.from_numpy(np.ascontiguousarray(edges))
             for key, edges in heterograph.edges.items()}).numpy()
    tested = heterograph.parts["test_set"]
    accuracy = np.mean(logits[tested].argmax(axis=1) == heterograph.labels[tested])
    # Two papers at most whose best scores are nearly equal.
    assert accuracy == pytest.approx(trained["report"]["test_metric"], abs=2.1 / len(tested))
    assert accuracy > 0.8


def test_a_plan_is_made_once_and_found_again(daemon, expected):
    options = ("--strategy", "diskgnn", "--cpu-cache", "8KiB")
    prepared = daemon.json("prepare", *RSAGE[1:], *options)["report"]
    report = daemon.json(*RSAGE, *options)["report"]
    assert report["loss_digest"] == expected
    found, = report["preparations"]
    assert found["reused"] and found["plan"] == prepared["preparation"]["plan"]


@pytest.mark.parametrize("strategy", [
    ("gnndrive", *SOME), ("gids", *SOME), ("diskgnn", *SOME), ("ginex", *GINEX),
    ("outre", *GINEX, *BY_PARTS)], ids=lambda strategy: strategy[0])
def test_a_forecast_counts_the_rows_of_the_epochs(daemon, strategy):
    forecast = daemon.json("explain", *RSAGE[1:], "--strategy", *strategy)["report"]
    epochs = daemon.json(*RSAGE, "--strategy", *strategy)["report"]["epochs"]
    needed = [epoch["rows_needed"] for epoch in epochs]
    assert min(needed) <= forecast["rows_needed"] <= max(needed)


@pytest.mark.parametrize(("options", "said"), [
    (("--strategy", "memory", "--model", "sage"), "rgcn, rsage and rgat"),
    (("--strategy", "memory", "--target", "editor"), "author, paper, venue"),
    (("--strategy", "memory", "--target", "venue"), "labels"),
    (("--strategy", "memory", "--fanout-of", "reads=1,1"), "author:writes:paper"),
], ids=lambda value: "-".join(value).replace("--", "") if isinstance(value, tuple) else "")
def test_what_cannot_be_is_said(daemon, options, said):
    failed = daemon.json(*RSAGE, *options, code=1)
    assert said in failed["error"]["message"]


@pytest.mark.parametrize(("options", "said"), [
    (("--fanout-of", "cites=5"), "--fanout-of"),
    (("--fanout-of", "cites"), "--fanout-of"),
    (("--model", "rgat", "--heads", "3"), "--hidden"),
    (("--sampler", "ladies"), "sage or gcn"),
], ids=lambda value: "-".join(value).replace("--", "") if isinstance(value, tuple) else "")
def test_options_that_do_not_go_together_are_refused(daemon, options, said):
    plain = tuple(word for word in RSAGE if word not in ("--fanouts", "5,5"))
    job = plain if "--sampler" in options else RSAGE
    assert said in daemon.hearth(*job, "--strategy", "memory", *options, code=2).err


@pytest.mark.parametrize(("fixture", "source", "flags"), [
    ("graphbolt_heterogeneous", "dataset", ("--fill-features", "mean", "--undirected")),
    ("igbh_tiny", "tiny", ("--undirected",)),
    ("mag240m", "mag240m_kddcup2021", ("--fill-features", "mean", "--undirected")),
    ("ogb_mag", "ogbn_mag", ("--fill-features", "mean", "--undirected")),
], ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("model", ["rgcn", "rsage", "rgat"])
def test_formats_with_several_types_train(daemon, fixture, source, flags, model):
    if not (daemon.data_dir / "datasets" / fixture).exists():
        daemon.json("dataset", "import", fixture, "--source", str(FIXTURES / fixture / source),
                    *flags)
    job = ("train", "--dataset", fixture, "--model", model, "--fanouts", "3,3", "--hidden", "8",
           "--heads" if model == "rgat" else "--lr", "2" if model == "rgat" else "0.01",
           "--batch-size", "8", "--epochs", "2")
    digests = {daemon.json(*job, "--strategy", strategy)["report"]["loss_digest"]
               for strategy in ("memory", "mmap", "gnndrive", "gids", "diskgnn")}
    assert len(digests) == 1
