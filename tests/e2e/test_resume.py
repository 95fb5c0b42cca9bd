"""Jobs that end in vain: the daemon dies with them, or somebody cancels them; and how they
go on."""

from __future__ import annotations

import pytest

from daemon import wait_for
from jobs import LONG, LONG_BATCHES_PER_EPOCH, LONG_EPOCHS, QUICK

ABORTED = 10
TOTAL_BATCHES = LONG_BATCHES_PER_EPOCH * LONG_EPOCHS


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon("--retries", "3")
    daemon.import_graph("planted", graph_folder)
    return daemon


def assert_same(report, undisturbed):
    assert report["loss_digest"] == undisturbed["loss_digest"]
    assert report["test_metric"] == undisturbed["test_metric"]
    for epoch, expected in zip(report["epochs"], undisturbed["epochs"], strict=True):
        for figure in ("epoch", "loss", "valid_metric", "batches"):
            assert epoch[figure] == expected[figure], figure


def kill_after(daemon, job, batches):
    daemon.wait_for_batches(job, batches)
    daemon.kill()
    daemon.start()


def test_a_job_with_which_the_daemon_dies_again_and_again_fails(fresh, undisturbed):
    # Nothing of it is durable before the first epoch's end.
    job = fresh.json(*LONG, "--detach")["id"]
    for _ in range(3):
        kill_after(fresh, job, 1)
    failed = fresh.json("job", "show", job)
    assert failed["state"] == "FAILED"
    assert failed["error"]["code"] == ABORTED
    assert "died 3 times in a row" in failed["error"]["message"]
    # Other jobs are not held up.
    assert fresh.json(*QUICK)["state"] == "SUCCEEDED"
    resumed = fresh.json("job", "resume", job)
    assert resumed["state"] == "SUCCEEDED"
    assert_same(resumed["report"], undisturbed)


def test_durable_progress_gives_a_job_as_many_tries_again(fresh, undisturbed):
    job = fresh.json(*LONG, "--checkpoint-every", "1", "--detach")["id"]
    for _ in range(6):
        # The first one's checkpoint is durable when the second one is trained.
        kill_after(fresh, job, 2)
    ended = fresh.json("job", "watch", job)
    assert ended["state"] == "SUCCEEDED"
    assert_same(ended["report"], undisturbed)


def test_a_cancelled_job_goes_on_from_its_checkpoint(fresh, undisturbed):
    job = fresh.json(*LONG, "--detach")["id"]
    before = fresh.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 10)
    fresh.hearth("job", "cancel", job)
    fresh.json("job", "watch", job, code=1)
    shown = fresh.json("job", "show", job)
    assert shown["state"] == "CANCELLED"
    assert len(shown["report"]["epochs"]) >= 1
    resumed = fresh.json("job", "resume", job, "--samplers", "2", "--checkpoint-every", "7")
    assert_same(resumed["report"], undisturbed)
    assert resumed["report"]["resumes"] == 1
    # Series go on where they were while the daemon lives.
    assert fresh.batches_done(job) == TOTAL_BATCHES > before
    assert fresh.json("job", "show", job)["spec"]["train"]["pipeline"]["samplers"] == 2


def test_what_changes_results_is_refused(fresh):
    job = fresh.json(*LONG, "--detach")["id"]
    fresh.wait_for_batches(job, 1)
    assert "RUNNING" in fresh.hearth("job", "resume", job, code=1).err
    fresh.hearth("job", "cancel", job)
    fresh.json("job", "watch", job, code=1)
    assert "--epochs" in fresh.hearth("job", "resume", job, "--epochs", "9", code=2).err
    # A budget that only another strategy has.
    assert "not an option of strategy" in fresh.hearth("job", "resume", job, "--cpu-cache", "1MiB", code=2).err
    assert fresh.state(job) == "CANCELLED"


def test_a_resumed_job_is_watched_to_its_new_end(fresh, undisturbed):
    job = fresh.json(*LONG, "--detach")["id"]
    fresh.wait_for_batches(job, 10)
    fresh.hearth("job", "cancel", job)
    fresh.json("job", "watch", job, code=1)
    fresh.hearth("job", "resume", job, "--detach")
    ended = fresh.json("job", "watch", job)
    assert_same(ended["report"], undisturbed)
    wait_for(lambda: fresh.state(job) == "SUCCEEDED", "the end")
