"""An order in which batches share neighbors while their labels stay as in random order; a guard
gives it up where the model learns less."""

from __future__ import annotations

import pytest

from daemon import TIRELESS
from jobs import QUICK
from test_partition import partitions

# Communities apart from classes: labels of parts are those of the graph.
APART = ("--nodes", "4000", "--edges", "60000", "--undirected", "--dim", "16", "--classes", "4",
         "--communities", "40", "--train", "0.3", "--valid", "0.2", "--test", "0.2", "--seed", "3")
JOB = ("train", "--dataset", "apart", "--model", "sage", "--fanouts", "5,5", "--hidden", "32",
       "--batch-size", "64", "--epochs", "4", "--lr", "0.01", "--seed", "1")
LOCALITY = ("--order", "locality")


@pytest.fixture(scope="module")
def apart(daemon):
    """A daemon with a graph of communities."""
    daemon.json("dataset", "generate", "apart", *APART)
    return daemon


@pytest.fixture(scope="module")
def job(apart):
    return apart.json(*JOB, *LOCALITY)


# The guard decides by validation: either order may have won.
def test_the_order_is_that_of_a_partition_until_it_is_given_up(apart, job):
    report, choice = job["report"], job["report"]["locality"]
    assert choice["label_distance"] <= 1.1 * choice["shuffled_label_distance"]
    parted = apart.json(*JOB, "--order", "partition", "--macro-batch-parts",
                        str(choice["macro_batch_parts"]))["report"]
    shuffled = apart.json(*JOB)["report"]
    assert report["epochs"][1]["valid_metric"] == choice["valid_metric"] \
        == parted["epochs"][1]["valid_metric"]
    assert choice["shuffled_valid_metric"] == shuffled["epochs"][1]["valid_metric"]
    assert choice["shuffled_rows_needed"] == shuffled["epochs"][1]["rows_needed"]
    assert choice["rows_needed"] == parted["epochs"][1]["rows_needed"] \
        < choice["shuffled_rows_needed"]
    reverted = choice["valid_metric"] < choice["shuffled_valid_metric"] - 0.005
    assert choice.get("reverted", False) == reverted
    later = shuffled if reverted else parted
    assert [epoch["rows_needed"] for epoch in report["epochs"]] == \
        [epoch["rows_needed"] for epoch in (*parted["epochs"][:2], *later["epochs"][2:])]
    assert reverted or report["loss_digest"] == parted["loss_digest"]
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    assert not report.get("resumes") and report["partition"]["plan"] in partitions(apart)


def test_log_and_report_tell_what_was_chosen(apart, job):
    log = apart.hearth("job", "logs", job["id"]).out
    assert "order locality:" in log and "in shuffled order: epoch 2: loss" in log
    assert "after epoch 2 is" in log
    shown = apart.hearth("job", "show", job["id"]).out
    assert "in a macro batch; label distance" in shown and "epoch 2: valid accuracy" in shown


@pytest.mark.parametrize("strategy", [
    ("ginex", "--cpu-cache", "16KiB"), ("diskgnn", "--cpu-cache", "16KiB"),
], ids=lambda strategy: strategy[0])
def test_every_strategy_decides_as_memory_does(apart, job, strategy):
    report = apart.json(*JOB, *LOCALITY, "--strategy", *strategy)["report"]
    assert report["loss_digest"] == job["report"]["loss_digest"]
    assert report["locality"] == job["report"]["locality"]


def test_it_is_explained_and_prepared(apart, job):
    explained = apart.json("explain", *JOB[1:], *LOCALITY)["report"]
    choice = job["report"]["locality"]
    assert explained["locality"]["macro_batch_parts"] == choice["macro_batch_parts"]
    assert explained["rows_needed"] == pytest.approx(choice["rows_needed"], rel=0.01)
    assert any("2 epochs in shuffled order" in note for note in explained["notes"])
    made = apart.json("prepare", *JOB[1:], *LOCALITY)["report"]["partition"]
    assert made["reused"] and made["plan"] == job["report"]["partition"]["plan"]


def test_such_jobs_share_no_passes(apart, job):
    both = [apart.hearth(*JOB, *LOCALITY, "--detach").out.strip() for _ in range(2)]
    for one in both:
        apart.wait_for_state(one, "SUCCEEDED")
        report = apart.json("job", "show", one)["report"]
        assert not report.get("company")
        assert report["loss_digest"] == job["report"]["loss_digest"]


def test_graphs_of_several_types_have_the_order_too(daemon, typed_folder):
    daemon.json("dataset", "import", "typed", "--source", str(typed_folder))
    job = ("train", "--dataset", "typed", "--fanouts", "5,5", "--hidden", "32", "--batch-size",
           "64", "--epochs", "3", "--model", "rsage", *LOCALITY)
    report = daemon.json(*job)["report"]
    assert 0 < report["locality"]["macro_batch_parts"] <= report["locality"]["parts"]
    again = daemon.json(*job, "--strategy", "gnndrive", "--cpu-cache", "16KiB")["report"]
    assert again["loss_digest"] == report["loss_digest"]
    assert again["locality"] == report["locality"]


@pytest.mark.parametrize("options, words", [
    (("--strategy", "outre"), "--order: must be partition"),
    (("--history", "on"), "--history: must be off with order locality"),
    (("--model", "none"), "--order: must be shuffled or partition"),
    (("--macro-batch-parts", "4"), "--macro-batch-parts"),
], ids=lambda value: "" if isinstance(value, str) else "-".join(value).replace("--", ""))
def test_what_makes_no_sense_is_refused(apart, options, words):
    refused = apart.hearth(*JOB, *LOCALITY, *options, code=None)
    assert refused.code in (1, 2) and words in refused.err


def test_kills_change_nothing(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    job = (*QUICK, "--epochs", "5", "--batch-size", "32", *LOCALITY)
    expected = daemon.json(*job)["report"]
    again = daemon.hearth(*job, "--checkpoint-every", "10", "--detach").out.strip()
    # Batches are counted from each start on: the first 114 are the pilot's.
    for batches in (60, 70, 60, 60):
        daemon.wait_for_batches(again, batches)
        daemon.kill()
        daemon.start()
    daemon.wait_for_state(again, "SUCCEEDED")
    report = daemon.json("job", "show", again)["report"]
    assert report["loss_digest"] == expected["loss_digest"]
    assert report["locality"] == expected["locality"]
