"""Layer-wise sampling (LADIES): the same batches and results with every strategy."""

from __future__ import annotations

import pytest

from jobs import QUICK

# Without its fan-outs.
PLAIN = (*QUICK[:5], *QUICK[7:])
LADIES = (*PLAIN, "--sampler", "ladies", "--layer-nodes", "100,150")
PARTITION = ("--order", "partition", "--parts", "24", "--macro-batch-parts", "5")


@pytest.fixture(scope="module")
def expected(daemon):
    """The digests of training with everything in memory, by the order of seeds."""
    return {order: daemon.json(*LADIES, "--strategy", "memory", *order)["report"]["loss_digest"]
            for order in ((), PARTITION)}


@pytest.mark.parametrize("strategy", [
    ("mmap",), ("gnndrive", "--cpu-cache", "16KiB"), ("ginex", "--cpu-cache", "16KiB"),
    ("diskgnn", "--cpu-cache", "16KiB"), ("outre", "--cpu-cache", "64KiB", *PARTITION),
    ("ginex", "--cpu-cache", "1MiB", "--samplers", "3", "--extractors", "2"),
    ("gids", "--cpu-cache", "16KiB", "--window-cache", "16KiB"),
    ("foresight", "--cpu-cache", "16KiB"),
], ids=lambda strategy: "-".join(strategy[:3]).replace("--", ""))
def test_every_strategy_trains_as_memory_does(daemon, expected, strategy):
    report = daemon.json(*LADIES, "--strategy", *strategy)["report"]
    order = PARTITION if "--order" in strategy else ()
    assert report["loss_digest"] == expected[order]
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    assert report["exact"]


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_with_room_for_all_neighbors_nothing_is_lost(daemon, model):
    options = (*PLAIN, "--model", model, "--strategy", "memory")
    drawn = daemon.json(*options, "--sampler", "ladies", "--layer-nodes", "100000,100000")
    whole = daemon.json(*options, "--fanouts=-1,-1")
    assert drawn["report"]["loss_digest"] == whole["report"]["loss_digest"]


def test_a_forecast_counts_the_rows_of_the_epochs(daemon):
    options = ("--strategy", "ginex", "--cpu-cache", "16KiB")
    forecast = daemon.json("explain", *LADIES[1:], *options)["report"]
    epochs = daemon.json(*LADIES, *options)["report"]["epochs"]
    assert forecast["rows_needed"] == epochs[0]["rows_needed"]


@pytest.mark.parametrize(("options", "said"), [
    (("--model", "gat"), "sage or gcn"),
    (("--trainers", "2"), "--trainers"),
    (("--strategy", "ginex", "--history", "on"), "--history"),
    (("--layer-nodes", "0,5"), "--layer-nodes"),
    (("--fanouts", "5,5"), "--fanouts"),
], ids=lambda value: value[0].strip("-") if isinstance(value, tuple) else "")
def test_what_does_not_go_with_it_is_refused(daemon, options, said):
    assert said in daemon.hearth(*LADIES, *options, code=2).err
