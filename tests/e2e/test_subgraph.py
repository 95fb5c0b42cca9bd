"""Batches that are one graph, as PyG's NeighborLoader samples: the same results with every
strategy, after a kill -9, in evaluations, sweeps and forecasts; what does not go with them."""

from __future__ import annotations

import pytest

from jobs import LONG, QUICK, assert_a_kill_changes_nothing

ONCE = ("--sampler", "subgraph")
SUBGRAPH = (*QUICK, *ONCE, "--fanouts", "5,4,3")
PARTITION = ("--order", "partition", "--parts", "24", "--macro-batch-parts", "5")


@pytest.fixture(scope="module")
def expected(daemon):
    """The digests of training with everything in memory, by the order of seeds."""
    return {order: daemon.json(*SUBGRAPH, "--strategy", "memory", *order)["report"]["loss_digest"]
            for order in ((), PARTITION)}


@pytest.mark.parametrize("strategy", [
    ("mmap",), ("gnndrive", "--cpu-cache", "16KiB"), ("ginex", "--cpu-cache", "16KiB"),
    ("diskgnn", "--cpu-cache", "16KiB"), ("outre", "--cpu-cache", "64KiB", *PARTITION),
    ("diskgnn", "--cpu-cache", "16KiB", *PARTITION),
    ("ginex", "--cpu-cache", "1MiB", "--samplers", "3", "--extractors", "2"),
    ("gids", "--cpu-cache", "16KiB", "--window-cache", "16KiB"),
    ("foresight", "--cpu-cache", "16KiB"),
], ids=lambda strategy: "-".join(strategy[:4]).replace("--", ""))
def test_every_strategy_trains_as_memory_does(daemon, expected, strategy):
    report = daemon.json(*SUBGRAPH, "--strategy", *strategy)["report"]
    order = PARTITION if "--order" in strategy else ()
    assert report["loss_digest"] == expected[order]
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    assert report["exact"]


def test_a_batch_needs_fewer_rows_than_where_each_layer_draws(daemon, expected):
    once = daemon.json(*SUBGRAPH)["report"]
    anew = daemon.json(*SUBGRAPH, "--sampler", "neighbor")["report"]
    assert once["loss_digest"] == expected[()] != anew["loss_digest"]
    for epoch, other in zip(once["epochs"], anew["epochs"], strict=True):
        assert epoch["rows_needed"] < other["rows_needed"]


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2", "gin"])
def test_of_all_neighbors_the_batches_are_those_of_the_default(daemon, model):
    options = (*QUICK, "--model", model, "--fanouts=-1,-1", "--epochs", "1")
    digests = {daemon.json(*options, "--sampler", sampler)["report"]["loss_digest"]
               for sampler in ("neighbor", "subgraph")}
    assert len(digests) == 1


@pytest.mark.parametrize("trainers", ["2", "3"])
def test_trainers_have_subgraphs_of_their_own(daemon, expected, trainers):
    shared = (*SUBGRAPH, "--trainers", trainers)
    digests = {daemon.json(*shared, "--strategy", *strategy)["report"]["loss_digest"]
               for strategy in (("memory",), ("gnndrive", "--samplers", "3"),
                                ("ginex", "--cpu-cache", "64KiB"), ("diskgnn",))}
    assert len(digests) == 1 and expected[()] not in digests


def test_one_plan_is_not_the_others(daemon):
    options = ("--strategy", "diskgnn", "--cpu-cache", "24KiB")
    prepared = daemon.json("prepare", *SUBGRAPH[1:], *options)["report"]["preparation"]
    other = daemon.json("prepare", *SUBGRAPH[1:], *options,
                        "--sampler", "neighbor")["report"]["preparation"]
    assert prepared["plan"] != other["plan"]
    found, = daemon.json(*SUBGRAPH, *options)["report"]["preparations"]
    assert found["reused"] and found["plan"] == prepared["plan"]


@pytest.mark.parametrize("strategy", ["gnndrive", "ginex", "diskgnn"])
def test_a_forecast_counts_the_rows_of_the_epochs(daemon, strategy):
    options = ("--strategy", strategy, "--cpu-cache", "16KiB")
    forecast = daemon.json("explain", *SUBGRAPH[1:], *options)["report"]
    needed = [epoch["rows_needed"]
              for epoch in daemon.json(*SUBGRAPH, *options)["report"]["epochs"]]
    assert min(needed) <= forecast["rows_needed"] <= max(needed)


def test_a_later_test_has_the_figures_of_the_job_itself(daemon):
    whole = daemon.json(*SUBGRAPH)["report"]
    trained = daemon.json(*SUBGRAPH, "--skip-test", "true")
    tested = daemon.json("evaluate", trained["id"])["report"]
    assert tested["test_metric"] == whole["test_metric"]
    assert tested["test"]["rows_needed"] == whole["test"]["rows_needed"]


def test_a_sweep_compares_ways_to_sample(daemon, expected):
    done = daemon.json("sweep", "submit", *SUBGRAPH[1:], "--algorithm", "grid",
                       "--space", "sampler=neighbor,subgraph", "--space", "dropout=0.2,0.3")
    assert {trial["state"] for trial in done["trials"]} == {"TRIAL_SUCCEEDED"}
    settings_of = {trial["number"]: {setting["name"]: setting["value"]
                                     for setting in trial["parameters"]}
                   for trial in done["trials"]}
    digests = {}
    for trial in done["trials"]:
        settings = settings_of[trial["number"]]
        # Passes over the data are shared with trials of the same batches alone.
        assert {settings_of[other]["sampler"]
                for other in trial["shared_with"]} <= {settings["sampler"]}
        job = daemon.json("job", "show", trial["jobs"][0])
        # Both have the fan-outs that are not searched.
        sampler = job["spec"]["train"]["data"][settings["sampler"]]
        assert sampler["fanouts"] == [5, 4, 3]
        digests[settings["sampler"], settings["dropout"]] = job["report"]["loss_digest"]
    assert digests["subgraph", "0.2"] == expected[()]
    assert len(set(digests.values())) == 4


@pytest.mark.parametrize("strategy", ["mmap", "ginex", "diskgnn"])
def test_kill_9_goes_on_as_if_undisturbed(start_daemon, graph_folder, strategy):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    assert_a_kill_changes_nothing(
        daemon, (*LONG, *ONCE, "--epochs", "3", "--strategy", strategy))


@pytest.mark.parametrize(("options", "said"), [
    (("--strategy", "ginex", "--history", "on"), "--history: must be off: sampler subgraph"),
    (("--device", "cuda", "--sample-on", "gpu"), "--sample-on: must be host with sampler subgraph"),
    (("--fanouts", "5,0"), "--fanouts"),
    (("--layer-nodes", "5,5"), "--layer-nodes"),
], ids=["history", "sample-on", "fanouts", "layer-nodes"])
def test_what_does_not_go_with_it_is_refused(daemon, options, said):
    assert said in daemon.hearth(*SUBGRAPH, *options, code=2).err
