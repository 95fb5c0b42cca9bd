"""Convoys: jobs with equal data share their passes; each has the results that it has alone."""

from __future__ import annotations

import random
import re
import time

import pytest

from daemon import TIRELESS, wait_for

# 1,800 training nodes in 57 batches an epoch.
_DATA = ("--dataset", "planted", "--fanouts", "5,5", "--batch-size", "32", "--data-seed", "1")
_STRATEGIES = {
    "memory": (),
    "mmap": (),
    "gnndrive": (),
    "ginex": ("--cpu-cache", "100KiB"),
    "diskgnn": (),
    "outre": ("--cpu-cache", "100KiB", "--parts", "8", "--macro-batch-parts", "2"),
    "gids": ("--cpu-cache", "50KiB", "--window-cache", "50KiB"),
    "foresight": ("--cpu-cache", "100KiB"),
}
_MODELS = [
    ("--model", "sage", "--hidden", "16", "--dropout", "0.2"),
    ("--model", "gcn", "--hidden", "16"),
    ("--model", "gat", "--hidden", "16", "--heads", "2"),
    ("--model", "sage", "--hidden", "32", "--patience", "1"),
    ("--model", "sage", "--hidden", "8", "--model-seed", "7"),
    ("--model", "gcn", "--hidden", "8", "--checkpoint-every", "5"),
]
_DIVERGING = ("--model", "sage", "--hidden", "16", "--optimizer", "sgd", "--lr", "1e30")


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    return daemon


def submit(daemon, *options):
    return daemon.json("train", *_DATA, *options, "--detach")["id"]


def submit_together(daemon, jobs):
    """Jobs that are all queued before the first of them runs."""
    blocker = submit(daemon, "--strategy", "memory", "--epochs", "100000", "--data-seed", "99",
                     "--model", "sage", "--hidden", "8")
    daemon.wait_for_state(blocker, "RUNNING")
    ids = [submit(daemon, *job) for job in jobs]
    daemon.hearth("job", "cancel", blocker)
    return ids


def show(daemon, job):
    return daemon.json("job", "show", job)


def digest(daemon, job):
    daemon.wait_for_state(job, "SUCCEEDED")
    return show(daemon, job)["report"]["loss_digest"]


def digest_alone(daemon, *options):
    return daemon.json("train", *_DATA, *options)["report"]["loss_digest"]


@pytest.fixture(scope="module")
def alone():
    """Digests of jobs alone, by their options. All strategies but outre have one digest: it is
    that of `memory`, which is computed once."""
    digests = {}

    def compute(daemon, strategy, *options):
        by = (*strategy, *options) if "outre" in strategy else ("--strategy", "memory", *options)
        if by not in digests:
            digests[by] = digest_alone(daemon, *by)
        return digests[by]

    return compute


@pytest.mark.parametrize("strategy", _STRATEGIES)
def test_mixed_members_have_the_results_that_each_has_alone(fresh, alone, strategy):
    common = ("--strategy", strategy, *_STRATEGIES[strategy])
    jobs = [("--epochs", "4", *model) for model in _MODELS]
    diverging = ("--epochs", "4", *_DIVERGING)
    leaving = ("--epochs", "4", "--model", "sage", "--hidden", "16", "--model-seed", "3")
    *members, failing, cancelled = submit_together(
        fresh, [(*common, *options) for options in (*jobs, diverging, leaving)])
    fresh.wait_for_batches(cancelled, 70)
    fresh.hearth("job", "cancel", cancelled)
    late_options = ("--epochs", "4", "--model", "gcn", "--hidden", "16", "--model-seed", "5")
    late = submit(fresh, *common, *late_options, "--join", "true")
    for job, options in zip(members, jobs, strict=True):
        assert digest(fresh, job) == alone(fresh, common, *options), options
    fresh.wait_for_state(failing, "FAILED")
    assert "diverged" in show(fresh, failing)["error"]["message"]
    fresh.wait_for_state(cancelled, "CANCELLED")

    company = show(fresh, members[0])["report"]["company"]
    assert set(company["jobs"]) >= set(members[1:])
    assert company["bytes_charged"] <= company["bytes_alone"]

    # It begins where the others were, and its spec says so.
    assert digest(fresh, late)
    key = show(fresh, late)["spec"]["train"]["data"]["first_epoch_key"]
    assert 0 < key < 4
    assert digest(fresh, late) == alone(
        fresh, common, *late_options, "--first-epoch-key", str(key))

    # One that has left goes on as if it had not.
    fresh.hearth("job", "resume", cancelled)
    assert digest(fresh, cancelled) == alone(fresh, common, *leaving)


def test_kills_leave_members_that_go_on_together(fresh):
    # Less than an epoch is trained between two kills.
    common = ("--strategy", "gnndrive", "--epochs", "6", "--checkpoint-every", "10")
    jobs = [(*common, *model) for model in _MODELS[:4]]
    alone = [digest_alone(fresh, *options) for options in jobs]
    members = submit_together(fresh, jobs)
    kills = 0
    while any(fresh.state(job) != "SUCCEEDED" for job in members):
        seen = fresh.batches_done(members[0])
        wait_for(lambda: fresh.state(members[0]) == "SUCCEEDED"
                 or fresh.batches_done(members[0]) > seen + 40, "some batches", 0.02)
        if fresh.state(members[0]) == "SUCCEEDED":
            break
        fresh.kill()
        fresh.start()
        kills += 1
    assert kills >= 2
    assert [digest(fresh, job) for job in members] == alone


# One of them late, one failing, one cancelled.
@pytest.mark.full("kills")
@pytest.mark.parametrize("strategy", _STRATEGIES)
def test_twenty_kills_of_eight_mixed_members(fresh, strategy):
    common = ("--strategy", strategy, *_STRATEGIES[strategy], "--epochs", "12")
    jobs = [(*common, *model) for model in _MODELS[:5]]
    alone = [digest_alone(fresh, *options) for options in jobs]
    late_options = (*common, "--model", "gcn", "--hidden", "16", "--model-seed", "5")
    leaving = (*common, "--model", "gat", "--hidden", "8", "--heads", "2")
    *members, failing, cancelled = submit_together(
        fresh, [*jobs, (*common, *_DIVERGING), leaving])
    late = ""
    moments = random.Random(1)
    for kill in range(20):
        time.sleep(moments.uniform(0.1, 0.8))
        if kill == 5:
            fresh.hearth("job", "cancel", cancelled)
            late = submit(fresh, *late_options, "--join", "true")
        fresh.kill()
        fresh.start()
    assert [digest(fresh, job) for job in members] == alone
    fresh.wait_for_state(failing, "FAILED")
    fresh.wait_for_state(cancelled, "CANCELLED", "SUCCEEDED")
    trained = digest(fresh, late)
    key = show(fresh, late)["spec"]["train"]["data"]["first_epoch_key"]
    assert trained == digest_alone(fresh, *late_options, "--first-epoch-key", str(key))


def test_passes_are_read_once_and_metrics_say_so(fresh):
    common = ("--strategy", "gnndrive", "--cpu-cache", "64KiB", "--epochs", "2")
    members = submit_together(fresh, [(*common, *model) for model in _MODELS[:4]])
    for job in members:
        fresh.wait_for_state(job, "SUCCEEDED")
    reports = [show(fresh, job)["report"]["company"] for job in members]
    assert {report["bytes_alone"] for report in reports} == {reports[0]["bytes_alone"]}
    # Equal parts add up to what one of them would have read.
    charged = sum(report["bytes_charged"] for report in reports)
    assert charged == pytest.approx(reports[0]["bytes_alone"], rel=1e-3)
    shared = float(re.search(r"^hearth_convoy_bytes_shared_total (\S+)", fresh.metrics(),
                             re.MULTILINE)[1])
    assert shared == pytest.approx(3 * reports[0]["bytes_alone"], rel=1e-3)
    assert "hearth_convoy_members 0" in fresh.metrics()
    text = fresh.hearth("job", "show", members[0]).out
    assert f"shared its passes with: {', '.join(members[1:])}" in text


def test_jobs_with_other_data_do_not_share(start_daemon, graph_folder):
    daemon = start_daemon("--max-running-jobs", "2")
    daemon.import_graph("planted", graph_folder)
    model = ("--model", "sage", "--hidden", "8", "--strategy", "memory", "--epochs", "2")
    members = submit_together(daemon, [model, (*model, "--data-seed", "2"),
                                       (*model, "--batch-size", "16")])
    for job in members:
        daemon.wait_for_state(job, "SUCCEEDED")
        assert not show(daemon, job)["report"]["company"]


def test_none_share_where_the_daemon_is_told_so(start_daemon, graph_folder):
    daemon = start_daemon("--convoy-members", "1")
    daemon.import_graph("planted", graph_folder)
    model = ("--model", "sage", "--hidden", "8", "--strategy", "memory", "--epochs", "2")
    members = submit_together(daemon, [model, model])
    assert digest(daemon, members[0]) == digest(daemon, members[1])
    assert not show(daemon, members[0])["report"]["company"]


@pytest.mark.parametrize("options, words", [
    (("--first-epoch-key", "5"), "must be less than --distinct-epochs"),
    (("--first-epoch-key", "1", "--distinct-epochs", "9"), "must be 0 where"),
    (("--first-epoch-key", "1", "--refresh", "2"), "must be 0 with"),
])
def test_first_epochs_that_cannot_be_are_refused(fresh, options, words):
    refused = fresh.hearth("train", *_DATA, "--model", "sage", "--epochs", "5", *options, code=2)
    assert "--first-epoch-key" in refused.err
    assert words in refused.err
