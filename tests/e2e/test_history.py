"""Embeddings of earlier batches in place of computed ones: off by default, exact where they must be,
and the same whatever happens to the daemon."""

from __future__ import annotations

import pytest

from daemon import TIRELESS
from jobs import LONG, QUICK
from test_metrics import value
from test_partition import partitions

HISTORY = ("--history", "on", "--history-cache", "64KiB", "--staleness", "4")
PARTITION = ("--order", "partition", "--parts", "24", "--macro-batch-parts", "5")


def test_it_reads_fewer_rows_and_says_that_it_is_not_exact(daemon):
    exact = daemon.json(*QUICK)["report"]
    assert exact["exact"] and not exact["epochs"][0].get("history")
    job = daemon.json(*QUICK, *HISTORY)
    report = job["report"]
    assert not report["exact"] and report["loss_digest"] != exact["loss_digest"]
    for epoch, other in zip(report["epochs"], exact["epochs"]):
        assert epoch["rows_needed"] < other["rows_needed"]
        assert epoch["redundancy_ratio"] < other["redundancy_ratio"]
        use = epoch["history"]
        assert use["pulled"] > 0 and use["pushed"] > 0 and 1 <= use["mean_age"] <= 3
        assert epoch["validation"]["rows_needed"] == other["validation"]["rows_needed"]
        assert not epoch["validation"].get("history")
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    assert "histories" in {share["owner"] for share in report["memory"]}
    assert "history: embeddings of" in daemon.hearth("job", "logs", job["id"]).out
    shown = daemon.hearth("job", "show", job["id"]).out
    assert "exact: no" in shown


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2", "gin"])
def test_a_staleness_of_one_is_exact_for_every_model(daemon, model):
    job = (*QUICK, "--model", model)
    expected = daemon.json(*job)["report"]["loss_digest"]
    assert daemon.json(*job, *HISTORY, "--staleness", "1")["report"]["loss_digest"] == expected
    assert daemon.json(*job, *HISTORY)["report"]["loss_digest"] != expected


def test_gradients_by_embeddings_are_kept_unless_told(daemon):
    kept = daemon.json(*QUICK, *HISTORY)["report"]
    stopped = daemon.json(*QUICK, *HISTORY, "--history-stop-gradients", "true")["report"]
    assert kept["loss_digest"] != stopped["loss_digest"]
    # They take memory of their own.
    assert kept["history"]["embeddings"] < stopped["history"]["embeddings"]
    assert stopped["epochs"][0]["history"]["pulled"] > 0


@pytest.mark.parametrize("trainers", ["1", "2"])
@pytest.mark.parametrize("order", [(), PARTITION], ids=["shuffled", "partition"])
def test_widths_and_caches_change_nothing(daemon, trainers, order):
    digests = {
        daemon.json(*QUICK, *HISTORY, *order, "--trainers", trainers, "--strategy", *strategy)
        ["report"]["loss_digest"]
        for strategy in (("mmap",), ("mmap", "--samplers", "3", "--extractors", "2"),
                         ("gnndrive", "--cpu-cache", "16KiB"),
                         ("gnndrive", "--cpu-cache", "1MiB", "--samplers", "2"),
                         ("gids", "--cpu-cache", "16KiB", "--window-cache", "16KiB"),
                         ("diskgnn", "--cpu-cache", "16KiB"),
                         ("diskgnn", "--cpu-cache", "64KiB", "--samplers", "3"),
                         ("foresight", "--cpu-cache", "16KiB"))}
    assert len(digests) == 1


# With a learning rate of 0, embeddings do not change, so that old ones are those of now: with all
# neighbors and no dropout, the losses are exact but for the order of additions.
def test_histories_of_a_model_that_does_not_learn_are_exact(daemon):
    job = ("train", "--dataset", "planted", "--model", "sage", "--fanouts=-1,-1", "--hidden", "16",
           "--batch-size", "64", "--epochs", "2", "--lr", "1e-30", "--optimizer", "sgd",
           "--seed", "3")
    exact = daemon.json(*job)["report"]
    report = daemon.json(*job, *HISTORY)["report"]
    assert report["epochs"][0]["history"]["pulled"] > 0
    for epoch, other in zip(report["epochs"], exact["epochs"]):
        assert epoch["loss"] == pytest.approx(other["loss"], abs=1e-6)


@pytest.mark.parametrize("options, words", [
    (("--strategy", "gnndrive", "--reorder", "true"), "--history: must be off"),
    (("--fanouts", "5"), "--history: must be off"),
    (("--staleness", "0"), "--staleness"),
    (("--history", "off"), "--history-cache"),
    (("--history", "maybe"), "--history"),
    (("--history-cache", "1KiB"), "hold no embedding"),
    (("--strategy", "ginex", "--history-share", "0.5"), "--history-share: must be auto"),
    (("--history-share", "0.5"), "--history-share"),
    (("--history-sample-weight", "-1"), "--history-sample-weight"),
    (("--history-compare=-1",), "--history-compare"),
    (("--history-compare", "100"), "--history-compare: must be at most epochs"),
    (("--history-compare", "1", "--model", "none"), "--history-compare: must be 0"),
    (("--history-compare", "1", "--history-cache", "1KiB"), "hold no embedding"),
], ids=lambda value: "" if isinstance(value, str) else "-".join(value).replace("--", ""))
def test_what_makes_no_sense_is_refused(daemon, options, words):
    refused = daemon.hearth(*QUICK, *HISTORY, *options, code=None)
    assert refused.code in (1, 2) and words in refused.err


# With gradients, embeddings of these narrow rows are not worth their memory.
AUTO = ("--history", "on", "--staleness", "4", "--history-stop-gradients", "true")


def test_rows_and_embeddings_share_the_cache(daemon):
    job = (*QUICK, *PARTITION, "--strategy", "outre", *AUTO, "--cpu-cache", "48KiB")
    report = daemon.json(*job)["report"]
    choice = report["history"]
    assert choice["embeddings"] > 0 and 0 < choice["share"] <= 1 and not report["exact"]
    assert choice["bytes"] == int(48 * 1024 * choice["share"])
    # Its order needs fewer rows than a random one, and its history fewer still.
    assert report["epochs"][0]["redundancy_ratio"] < choice["redundancy_ratio"] \
        <= choice["shuffled_redundancy_ratio"]
    told = daemon.json(*job, "--history-share", str(choice["share"]))["report"]
    assert told["loss_digest"] == report["loss_digest"]
    none = daemon.json(*job, "--history-share", "0")
    assert none["report"]["exact"] and none["report"]["history"]["embeddings"] == 0
    assert none["report"]["loss_digest"] == daemon.json(*QUICK, *PARTITION)["report"]["loss_digest"]
    assert "rows are worth all of the cache" in daemon.hearth("job", "show", none["id"]).out
    # The profile is a plan.
    profile = daemon.json("plan", "show", choice["profile"])
    assert profile["strategy"] == "profile" and profile["state"] == "WHOLE"


def test_what_a_history_saves_is_explained(daemon):
    job = (*QUICK[1:], *PARTITION, "--strategy", "outre", "--cpu-cache", "48KiB")
    with_history = daemon.json("explain", *job, *AUTO)["report"]
    without = daemon.json("explain", *job)["report"]
    assert with_history["rows_needed"] < without["rows_needed"]
    assert with_history["history"]["embeddings"] > 0
    trained = daemon.json("train", *job, *AUTO)["report"]
    for figure in ("rows_needed", "bytes_read", "read_ops"):
        assert with_history[figure] == trained["epochs"][0][figure]
    assert with_history["history"] == trained["history"]
    shown = daemon.hearth("explain", *job, *AUTO).out
    assert "history: embeddings of" in shown and "rows for each seed" in shown


def test_batches_with_a_history_are_prepared_once(daemon):
    exact_job = (*QUICK[1:], "--strategy", "diskgnn", "--cpu-cache", "16KiB")
    made = daemon.json("prepare", *exact_job, *HISTORY)["report"]["preparation"]
    trained = daemon.json("train", *exact_job, *HISTORY)["report"]
    found, = trained["preparations"]
    assert found["plan"] == made["plan"] and found["reused"] and not trained["exact"]
    shown = daemon.hearth("plan", "show", made["plan"]).out
    assert f"embeddings of {trained['history']['embeddings']} nodes" in shown
    exact = daemon.json("prepare", *exact_job)["report"]["preparation"]
    assert exact["plan"] != made["plan"] and exact["disk_bytes"] > made["disk_bytes"]


def test_a_resumed_job_keeps_the_embeddings_that_it_began_with(daemon):
    job = (*LONG, *PARTITION, "--strategy", "outre", "--history", "on", "--history-share", "0.4",
           "--cpu-cache", "48KiB", "--epochs", "3")
    expected = daemon.json(*job)["report"]
    assert expected["history"]["embeddings"] > 0
    again = daemon.hearth(*job, "--detach").out.strip()
    daemon.wait_for_state(again, "RUNNING")
    daemon.hearth("job", "cancel", again)
    daemon.wait_for_state(again, "CANCELLED")
    daemon.hearth("job", "resume", again, "--cpu-cache", "1MiB", "--detach")
    daemon.wait_for_state(again, "SUCCEEDED")
    report = daemon.json("job", "show", again)["report"]
    assert report["loss_digest"] == expected["loss_digest"]
    assert report["history"] == expected["history"]


def test_a_comparison_needs_a_history(daemon):
    refused = daemon.hearth(*QUICK, "--history-compare", "1", code=None)
    assert refused.code in (1, 2) and "--history-compare" in refused.err


@pytest.mark.parametrize("strategy", ["memory", "diskgnn"])
def test_a_kill_in_the_middle_of_an_epoch_changes_nothing(start_daemon, graph_folder, strategy):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    job = (*LONG, *HISTORY, "--history-cache", "1MiB", "--epochs", "3", "--checkpoint-every", "3",
           "--strategy", strategy)
    expected = daemon.json(*job)["report"]["loss_digest"]
    again = daemon.hearth(*job, "--detach").out.strip()
    # Batches are counted from each start on.
    for batches in (10, 40, 25, 30):
        daemon.wait_for_batches(again, batches)
        daemon.kill()
        daemon.start()
    daemon.wait_for_state(again, "SUCCEEDED")
    report = daemon.json("job", "show", again)["report"]
    assert report["loss_digest"] == expected and report["resumes"] >= 1


# The figures of the epochs that were trained without the history, but for their times.
def compared(report):
    return [{key: value for key, value in epoch["without_history"].items() if key != "seconds"}
            for epoch in report["epochs"] if epoch.get("without_history")]


@pytest.mark.parametrize("strategy", [
    ("memory",), ("outre", "--cpu-cache", "64KiB", "--parts", "24", "--macro-batch-parts", "5"),
    ("diskgnn", "--cpu-cache", "16KiB"),
], ids=["memory", "outre", "diskgnn"])
def test_its_price_is_shown_by_epochs_without_it(daemon, strategy):
    job = (*QUICK, "--strategy", *strategy)
    for made in partitions(daemon):
        daemon.hearth("plan", "delete", made)
    shown = daemon.json(*job, *HISTORY, "--history-compare", "2")
    report = shown["report"]
    # The comparison made it.
    assert strategy[0] != "outre" or not report["partition"].get("reused")
    exact = daemon.json(*job)["report"]
    alone = daemon.json(*job, *HISTORY)["report"]
    assert report["loss_digest"] == alone["loss_digest"] and not report["exact"]
    assert report["test_metric"] == alone["test_metric"]
    assert compared(report) == [
        {key: epoch[key] for key in ("loss", "valid_metric", "rows_needed")}
        for epoch in exact["epochs"][:2]]
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    assert "with and without the history" in daemon.hearth("job", "show", shown["id"]).out
    log = daemon.hearth("job", "logs", shown["id"]).out
    assert "without a history: epoch 2: loss" in log
    assert "epoch 1: validation accuracy" in log
    assert value(daemon.metrics(), "hearth_train_comparing", job=shown["id"]) == 0


def test_a_kill_while_it_compares_changes_nothing(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    job = (*LONG, *HISTORY, "--history-cache", "1MiB", "--epochs", "3", "--checkpoint-every", "3",
           "--history-compare", "2")
    expected = daemon.json(*job)["report"]
    assert len(compared(expected)) == 2
    again = daemon.hearth(*job, "--detach").out.strip()
    # Batches are counted from each start on: the first ones are those that are compared.
    for batches in (10, 30, 40, 25, 30, 20):
        daemon.wait_for_batches(again, batches)
        daemon.kill()
        daemon.start()
    daemon.wait_for_state(again, "SUCCEEDED")
    report = daemon.json("job", "show", again)["report"]
    assert report["loss_digest"] == expected["loss_digest"]
    assert compared(report) == compared(expected)


def test_it_is_cancelled_and_resumed_while_it_compares(daemon):
    job = daemon.hearth(*LONG, "--epochs", "1000", *HISTORY, "--history-cache", "1MiB",
                        "--history-compare", "1000", "--detach").out.strip()
    daemon.wait_for_batches(job, 5)
    assert value(daemon.metrics(), "hearth_train_comparing", job=job) == 1
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
    daemon.hearth("job", "resume", job, "--detach")
    daemon.wait_for_state(job, "RUNNING")
    assert "without a history: going on from epoch" in daemon.hearth("job", "logs", job).out
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")


def test_it_may_not_be_changed_by_a_resume(daemon):
    job = daemon.hearth(*LONG, "--epochs", "100000", *HISTORY, "--history-cache", "1MiB",
                        "--detach").out.strip()
    daemon.wait_for_state(job, "RUNNING")
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
    assert daemon.hearth("job", "resume", job, "--history-cache", "2MiB", code=None).code != 0
