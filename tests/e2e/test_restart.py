"""Kills and stops of the daemon in the middle of training."""

from __future__ import annotations

import random
import re

import pytest

from daemon import PATIENCE_SECONDS, TIRELESS
from jobs import LONG, LONG_BATCHES_PER_EPOCH, LONG_EPOCHS, QUICK

TOTAL_BATCHES = LONG_BATCHES_PER_EPOCH * LONG_EPOCHS


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    return daemon


def begin_long_job(daemon, *options):
    """A client that watches, and the id of its job."""
    watching = daemon.begin(*LONG, *options)
    return watching, watching.stderr.readline().strip()


def outcome(daemon, watching, job):
    """The job as it is once the client, which watched throughout, has ended."""
    out, err = watching.communicate(timeout=PATIENCE_SECONDS)
    assert watching.returncode == 0, f"{out}\n{err}\n{daemon.log}"
    return daemon.json("job", "show", job)


def assert_same_training(report, undisturbed):
    assert report["loss_digest"] == undisturbed["loss_digest"]
    assert report["test_metric"] == undisturbed["test_metric"]
    for epoch, expected in zip(report["epochs"], undisturbed["epochs"], strict=True):
        for figure in ("epoch", "loss", "valid_metric", "batches", "rows_needed"):
            assert epoch[figure] == expected[figure], figure


@pytest.mark.parametrize("checkpoint_every", [0, 1, 10])
def test_kill_9_in_the_middle_of_an_epoch(fresh, undisturbed, checkpoint_every):
    watching, job = begin_long_job(fresh, "--checkpoint-every", str(checkpoint_every))
    fresh.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 20)
    fresh.kill()
    fresh.start()
    ended = outcome(fresh, watching, job)
    assert ended["state"] == "SUCCEEDED"
    assert ended["report"]["resumes"] == 1
    assert_same_training(ended["report"], undisturbed)
    assert fresh.batches_done(job) < TOTAL_BATCHES  # It did not start over.


def test_kill_9_with_a_schedule_and_clipping(fresh):
    options = ("--epochs", "3", "--lr-schedule", "cosine", "--lr-warmup-epochs", "1",
               "--clip-norm", "0.5")
    undisturbed = fresh.json(*LONG, *options)["report"]
    watching, job = begin_long_job(fresh, *options, "--checkpoint-every", "10")
    fresh.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 20)
    fresh.kill()
    fresh.start()
    ended = outcome(fresh, watching, job)
    assert ended["report"]["resumes"] == 1
    assert_same_training(ended["report"], undisturbed)


def test_kill_9_before_the_first_checkpoint(fresh, undisturbed):
    watching, job = begin_long_job(fresh)
    fresh.wait_for_batches(job, 5)
    fresh.kill()
    fresh.start()
    assert_same_training(outcome(fresh, watching, job)["report"], undisturbed)


def test_kill_9_again_and_again(fresh, undisturbed):
    watching, job = begin_long_job(fresh, "--checkpoint-every", "5")
    for _ in range(3):
        fresh.wait_for_batches(job, 30)
        fresh.kill()
        fresh.start()
    ended = outcome(fresh, watching, job)
    assert ended["report"]["resumes"] == 3
    assert_same_training(ended["report"], undisturbed)


def test_sigterm_checkpoints_and_the_job_goes_on(fresh, undisturbed):
    watching, job = begin_long_job(fresh)
    before = fresh.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 20)
    fresh.stop()
    fresh.start()
    ended = outcome(fresh, watching, job)
    assert_same_training(ended["report"], undisturbed)
    assert ended["report"]["resumes"] == 1
    # From the batch that it stopped at, not from the last epoch's end.
    assert fresh.batches_done(job) <= TOTAL_BATCHES - before
    log = fresh.hearth("job", "logs", job).out
    stopped = re.search(r"stopped at (epoch \d+, batch \d+)", log)
    assert f"going on from {stopped[1]}" in log


def test_finished_and_queued_jobs_survive(fresh):
    finished = fresh.json(*QUICK)
    running = fresh.json(*LONG, "--detach")["id"]
    queued = fresh.json(*QUICK, "--detach")["id"]
    fresh.wait_for_batches(running, 1)
    fresh.kill()
    fresh.start()
    assert fresh.json("job", "show", finished["id"]) == finished
    assert fresh.json("job", "watch", running)["state"] == "SUCCEEDED"
    again = fresh.json("job", "watch", queued)
    assert again["report"]["loss_digest"] == finished["report"]["loss_digest"]


def test_a_cancelled_job_stays_cancelled(fresh):
    job = fresh.json(*LONG, "--detach")["id"]
    fresh.wait_for_batches(job, 1)
    fresh.hearth("job", "cancel", job)
    fresh.kill()
    fresh.start()
    assert fresh.wait_for_state(job, "CANCELLED", "SUCCEEDED") == "CANCELLED"


def test_datasets_survive(fresh):
    before = fresh.json("dataset", "show", "planted")
    fresh.stop()
    fresh.start()
    assert fresh.json("dataset", "show", "planted") == before


@pytest.mark.full("kills")
@pytest.mark.parametrize("seed", range(12))
def test_kill_9_at_any_batch(fresh, undisturbed, seed):
    moments = random.Random(seed)
    every = str(moments.choice([0, 1, 3, 17]))
    watching, job = begin_long_job(fresh, "--checkpoint-every", every)
    for _ in range(4):
        fresh.wait_for_batches(job, moments.randrange(1, 40))
        fresh.kill()
        fresh.start()
    assert_same_training(outcome(fresh, watching, job)["report"], undisturbed)
