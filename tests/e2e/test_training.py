"""Training: what a report holds, and what must not change a loss digest."""

from __future__ import annotations

import re

import pytest

from jobs import LONG, LONG_BATCHES_PER_EPOCH, LONG_EPOCHS, QUICK

COUNTERS = ("seconds", "batches", "rows_needed", "bytes_needed", "bytes_read", "read_ops",
            "io_wait_seconds", "stages")


def digest(daemon, *arguments):
    return daemon.json(*arguments)["report"]["loss_digest"]


@pytest.fixture(scope="module")
def quick_job(daemon):
    return daemon.json(*QUICK)


def test_the_report_is_whole(daemon, graph, quick_job):
    assert quick_job["state"] == "SUCCEEDED"
    assert quick_job["error"] is None
    report = quick_job["report"]
    assert re.fullmatch("[0-9a-f]{64}", report["loss_digest"])
    assert report["peak_memory_bytes"] > 0
    assert report["metric"] == "accuracy"
    assert report["test_metric"] > 0.5  # Chance is 0.25.
    assert [epoch["epoch"] for epoch in report["epochs"]] == [1, 2]
    for epoch in report["epochs"]:
        assert set(COUNTERS) | {"loss", "valid_metric", "validation"} <= set(epoch)
        assert set(COUNTERS) <= set(epoch["validation"])
        assert epoch["batches"] == -(-len(graph.train_idx) // 64)
        assert epoch["validation"]["batches"] == -(-len(graph.valid_idx) // 64)
        assert epoch["bytes_needed"] == epoch["rows_needed"] * graph.node_feat.shape[1] * 4
        assert {stage["name"] for stage in epoch["stages"]} >= {"sample", "assemble", "train"}
    assert report["epochs"][-1]["loss"] < report["epochs"][0]["loss"]


def test_show_is_what_train_printed(daemon, quick_job):
    assert daemon.json("job", "show", quick_job["id"]) == quick_job


def test_defaults_are_filled_in(quick_job):
    train = quick_job["spec"]["train"]
    assert train["data"]["distinct_epochs"] == 2
    assert train["pipeline"]["samplers"] >= 1
    assert train["trains"][0]["train_threads"] >= 1


def test_the_table_ends_with_the_result(daemon, quick_job):
    result = daemon.hearth(*QUICK)
    assert re.search(r"^test accuracy: 0\.\d{3}$", result.out, re.MULTILINE)
    assert quick_job["report"]["loss_digest"] in result.out
    assert "epoch 1: loss" in result.err
    assert "\x1b" not in result.out + result.err


def test_memory_and_mmap_train_the_same(daemon, quick_job):
    expected = quick_job["report"]["loss_digest"]
    assert digest(daemon, *QUICK, "--strategy", "mmap") == expected
    assert digest(daemon, *QUICK, "--strategy", "mmap", "--mmap-advice", "normal") == expected
    assert digest(daemon, *QUICK, "--strategy", "memory") == expected


@pytest.mark.parametrize("strategy", ["memory", "mmap"])
def test_threads_of_the_pipeline_change_nothing(daemon, quick_job, strategy):
    widths = ("--samplers", "4", "--extractors", "3", "--strategy", strategy)
    assert digest(daemon, *QUICK, *widths) == quick_job["report"]["loss_digest"]


def test_seeds_change_something(daemon, quick_job):
    known = {quick_job["report"]["loss_digest"]}
    for seed in ("--seed", "--data-seed", "--model-seed"):
        other = digest(daemon, *QUICK, seed, "2")
        assert other not in known
        known.add(other)


def test_checkpoints_change_nothing(daemon, quick_job):
    assert digest(daemon, *QUICK, "--checkpoint-every", "1") == quick_job["report"]["loss_digest"]


@pytest.mark.parametrize("model", ["gcn", "gat", "gatv2", "gin"])
def test_models_repeat(daemon, model):
    """Each model learns, and does so twice the same."""
    first = daemon.json(*QUICK, "--model", model)["report"]
    second = daemon.json(*QUICK, "--model", model, "--samplers", "2")["report"]
    assert first["loss_digest"] == second["loss_digest"]
    assert first["test_metric"] == second["test_metric"] > 0.5


@pytest.mark.parametrize("optimizer", [("adamw", "--weight-decay", "0.1"),
                                       ("sgd", "--momentum", "0.9", "--lr", "0.1")])
def test_optimizers_learn(daemon, optimizer):
    epochs = daemon.json(*QUICK, "--optimizer", *optimizer)["report"]["epochs"]
    assert epochs[-1]["loss"] < epochs[0]["loss"]


def test_schedules_change_the_losses_and_repeat(daemon, quick_job):
    known = {quick_job["report"]["loss_digest"]}
    for schedule in (("cosine", "--lr-min", "0.001"), ("step", "--lr-step-epochs", "1"),
                     ("constant", "--lr-warmup-epochs", "1")):
        first = digest(daemon, *QUICK, "--lr-schedule", *schedule)
        assert first not in known
        assert digest(daemon, *QUICK, "--lr-schedule", *schedule, "--samplers", "3") == first
        known.add(first)


def test_distinct_epochs_repeat_the_batches(daemon):
    report = daemon.json(*QUICK, "--distinct-epochs", "1", "--model", "none")["report"]
    assert len({epoch["rows_needed"] for epoch in report["epochs"]}) == 1
    report = daemon.json(*QUICK, "--model", "none")["report"]
    assert len({epoch["rows_needed"] for epoch in report["epochs"]}) > 1


def test_no_model_reads_the_same_batches(daemon, quick_job):
    report = daemon.json(*QUICK, "--model", "none")["report"]
    assert ([epoch["rows_needed"] for epoch in report["epochs"]]
            == [epoch["rows_needed"] for epoch in quick_job["report"]["epochs"]])
    assert report["test_metric"] is None


def test_patience_keeps_the_best_epoch(daemon):
    report = daemon.json(*QUICK, "--epochs", "30", "--lr", "0.05", "--patience", "2")["report"]
    accuracies = [epoch["valid_metric"] for epoch in report["epochs"]]
    assert len(accuracies) < 30
    assert report["kept_epoch"] == 1 + accuracies.index(max(accuracies))


def test_another_running_job_changes_nothing(daemon, quick_job):
    wide = (*LONG, "--hidden", "256", "--epochs", "3")  # Ten times as long as the quick one.
    alone = digest(daemon, *wide)
    beside = daemon.json(*wide, "--detach")["id"]
    daemon.wait_for_batches(beside, 1)
    assert digest(daemon, *QUICK) == quick_job["report"]["loss_digest"]
    assert daemon.state(beside) == "RUNNING", "the long job was too short to run beside"
    assert daemon.json("job", "watch", beside)["report"]["loss_digest"] == alone


def test_bytes_read_are_unknown_beside_another_job(daemon):
    beside = daemon.json(*LONG, "--detach")["id"]
    daemon.wait_for_batches(beside, 1)
    epoch = daemon.json(*QUICK, "--strategy", "mmap", "--epochs", "1")["report"]["epochs"][0]
    assert epoch["bytes_read"] is None
    epoch = daemon.json("job", "watch", beside)["report"]["epochs"][0]
    assert epoch["batches"] == LONG_BATCHES_PER_EPOCH


def test_options_come_from_a_job_file(daemon, quick_job, tmp_path):
    options = dict(zip(QUICK[1::2], QUICK[2::2]))
    job_file = tmp_path / "job.yaml"
    job_file.write_text("".join(f"{name[2:]}: {value}\n" for name, value in options.items()))
    assert digest(daemon, "train", "-f", str(job_file)) == quick_job["report"]["loss_digest"]
    spec = daemon.json("train", "-f", str(job_file), "--epochs", "1")["spec"]
    assert spec["train"]["data"]["epochs"] == 1


def test_long_epochs_are_as_long_as_said(daemon):
    """The tests of kills count on it."""
    report = daemon.json(*LONG, "--model", "none")["report"]
    assert [epoch["batches"] for epoch in report["epochs"]] == (
        [LONG_BATCHES_PER_EPOCH] * LONG_EPOCHS)
