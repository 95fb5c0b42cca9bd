"""Several trainers: what they compute is what one computes, and it repeats."""

from __future__ import annotations

import pytest

from jobs import LONG, QUICK, assert_a_kill_changes_nothing

# As in QUICK, without dropout: then the number of trainers changes rounding alone.
EXACT = (*QUICK, "--dropout", "0")


@pytest.fixture(scope="module")
def one(daemon):
    return daemon.json(*EXACT)


@pytest.mark.parametrize("trainers", ["2", "3"])
@pytest.mark.parametrize("model", ["sage", "gcn", "gat"])
def test_losses_are_those_of_one_trainer(daemon, model, trainers):
    alone = daemon.json(*EXACT, "--model", model)["report"]
    shared = daemon.json(*EXACT, "--model", model, "--trainers", trainers)["report"]
    for expected, epoch in zip(alone["epochs"], shared["epochs"], strict=True):
        assert epoch["loss"] == pytest.approx(expected["loss"], abs=1e-4)
        assert epoch["valid_metric"] == pytest.approx(expected["valid_metric"], abs=0.02)
        assert epoch["batches"] == expected["batches"]
        assert epoch["validation"]["batches"] == expected["validation"]["batches"]
        # A row that several shards need is needed by each.
        assert epoch["rows_needed"] > expected["rows_needed"]
    assert shared["loss_digest"] != alone["loss_digest"]


@pytest.mark.parametrize("strategy", [
    ("memory",),
    ("mmap", "--samplers", "3", "--extractors", "2"),
    ("gnndrive", "--samplers", "3", "--extractors", "3", "--cpu-cache", "64KiB"),
    ("ginex", "--superbatch", "7", "--samplers", "2", "--cpu-cache", "64KiB"),
    ("gids", "--samplers", "2", "--cpu-cache", "32KiB", "--window-cache", "32KiB"),
], ids=lambda strategy: strategy[0])
def test_the_same_number_repeats_in_every_strategy(daemon, strategy):
    digests = {daemon.json(*QUICK, "--trainers", "2", "--train-threads", threads,
                           "--strategy", *strategy)["report"]["loss_digest"]
               for threads in ("1", "2")}
    digests.add(daemon.json(*QUICK, "--trainers", "2")["report"]["loss_digest"])
    assert len(digests) == 1


@pytest.mark.parametrize("strategy", ["memory", "gnndrive", "ginex", "gids"])
def test_memory_stays_within_what_was_reserved(daemon, strategy):
    report = daemon.json(*QUICK, "--trainers", "3", "--hidden", "128", "--strategy",
                         strategy)["report"]
    assert 0 < report["peak_memory_bytes"] <= report["memory_bound_bytes"]


def test_reordered_shards_are_each_trained_once(daemon, one):
    report = daemon.json(*EXACT, "--trainers", "3", "--strategy", "gnndrive", "--reorder", "true",
                         "--samplers", "3", "--extractors", "3")["report"]
    ordered = daemon.json(*EXACT, "--trainers", "3")["report"]
    for epoch, expected in zip(report["epochs"], ordered["epochs"], strict=True):
        assert epoch["batches"] == expected["batches"]
        assert epoch["rows_needed"] == expected["rows_needed"]
    assert report["epochs"][-1]["loss"] < report["epochs"][0]["loss"]
    assert report["test_metric"] == pytest.approx(one["report"]["test_metric"], abs=0.1)


def test_without_a_model_the_shards_are_read(daemon, one):
    report = daemon.json(*QUICK, "--trainers", "2", "--model", "none")["report"]
    for epoch, expected in zip(report["epochs"], one["report"]["epochs"], strict=True):
        assert epoch["batches"] == expected["batches"]
        assert epoch["rows_needed"] > expected["rows_needed"]


def test_kill_9_goes_on_as_if_undisturbed(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    assert_a_kill_changes_nothing(daemon, (*LONG, "--epochs", "3", "--trainers", "2"))


def test_the_number_is_shown_and_bounded(daemon, one):
    assert one["spec"]["train"]["data"]["trainers"] == 1
    job = daemon.json(*QUICK, "--trainers", "2", "--epochs", "1")
    assert job["spec"]["train"]["data"]["trainers"] == 2
    assert "trainers" in daemon.hearth("job", "show", job["id"]).out
    for options in (("--trainers", "17"), ("--trainers", "3", "--batch-size", "2")):
        refused = daemon.hearth(*QUICK, *options, code=2)
        assert "--trainers: " in refused.err
