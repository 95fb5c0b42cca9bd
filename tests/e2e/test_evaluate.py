"""Models that are tested after their training: with the figures that their jobs would have had."""

from __future__ import annotations

import pytest

from daemon import TIRELESS
from jobs import ENDLESS

_TRAIN = ("train", "--dataset", "planted", "--model", "sage", "--fanouts", "5,5", "--hidden", "16",
          "--batch-size", "64", "--epochs", "3", "--seed", "1")
_OPTIONS = {
    "memory": (),
    "mmap": (),
    "gnndrive": (),
    "ginex": (),
    "gids": (),
    "diskgnn": (),
    "foresight": (),
    "outre": ("--order", "partition"),
    # The best epoch is not the last one.
    "memory-patience": ("--patience", "2", "--epochs", "30", "--lr", "0.3"),
    "memory-history": ("--history", "on", "--history-cache", "1MiB"),
    "diskgnn-history": ("--history", "on", "--history-cache", "1MiB"),
    "memory-trainers": ("--trainers", "2"),
    "memory-auc": ("--metric", "roc_auc", "--model", "gat", "--dropout", "0.5"),
}


def figures(report):
    """What a test gives, but for its times and for the bytes that caches saved."""
    return (report["metric"], report["test_metric"], report["kept_epoch"],
            report["test"]["batches"], report["test"]["rows_needed"])


@pytest.mark.parametrize("case", _OPTIONS)
def test_a_later_test_has_the_figures_of_the_job_itself(daemon, case):
    options = (*_TRAIN, "--strategy", case.partition("-")[0], *_OPTIONS[case])
    whole = daemon.json(*options)["report"]
    job = daemon.json(*options, "--skip-test", "true")
    assert job["report"]["test_metric"] is None
    assert job["report"]["test"]["batches"] == 0
    assert job["report"]["loss_digest"] == whole["loss_digest"]
    evaluated = daemon.json("evaluate", job["id"])
    assert evaluated["state"] == "SUCCEEDED"
    assert figures(evaluated["report"]) == figures(whole)
    if case == "memory-patience":
        assert whole["kept_epoch"] < len(whole["epochs"])


def test_a_test_is_made_again_whatever_the_job_did(daemon):
    job = daemon.json(*_TRAIN)
    evaluated = daemon.hearth("evaluate", job["id"]).out
    assert f"test accuracy: {job['report']['test_metric']:.3f}" in evaluated
    shown = daemon.hearth("job", "show", job["id"]).out
    assert f"test accuracy: {job['report']['test_metric']:.3f}" in shown


def test_a_kill_in_the_test_loses_nothing(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    whole = daemon.json(*_TRAIN)
    for _ in range(5):
        # At any moment from its submission on.
        job = daemon.json("evaluate", whole["id"], "--detach")["id"]
        daemon.kill()
        daemon.start()
        assert daemon.wait_for_state(job, "SUCCEEDED", "FAILED") == "SUCCEEDED"
        report = daemon.json("job", "show", job)["report"]
        assert figures(report) == figures(whole["report"])
    # It has changed nothing of the job.
    assert daemon.json("job", "show", whole["id"])["report"] == whole["report"]


def test_what_cannot_be_tested_is_refused(daemon):
    refused = daemon.hearth("evaluate", "train-99999", code=1)
    assert 'there is no job "train-99999"' in refused.err
    unknown = daemon.hearth("evaluate", code=2)
    assert "JOB is required" in unknown.err
    nothing = daemon.json("train", "--dataset", "planted", "--model", "none", "--epochs", "1")
    assert "trained no model" in daemon.hearth("evaluate", nothing["id"], code=1).err
    running = daemon.json(*ENDLESS, "--detach")["id"]
    assert "has SUCCEEDED" in daemon.hearth("evaluate", running, code=1).err
    daemon.hearth("job", "cancel", running)


def test_a_model_stays_until_it_is_tested(start_daemon, graph_folder):
    daemon = start_daemon("--max-running-jobs", "1")
    daemon.import_graph("planted", graph_folder)
    trained = daemon.json(*_TRAIN)
    running = daemon.json(*ENDLESS, "--detach")["id"]
    daemon.wait_for_batches(running, 1)
    waiting = daemon.json("evaluate", trained["id"], "--detach")["id"]
    refused = daemon.hearth("job", "delete", trained["id"], code=1)
    assert f"{waiting} uses the model of {trained['id']}" in refused.err
    assert "is used by" in daemon.hearth("dataset", "delete", "planted", code=1).err
    daemon.hearth("job", "cancel", running)
    daemon.wait_for_state(waiting, "SUCCEEDED")
    daemon.hearth("job", "delete", trained["id"])
    report = daemon.json("job", "show", waiting)["report"]
    assert figures(report) == figures(trained["report"])
