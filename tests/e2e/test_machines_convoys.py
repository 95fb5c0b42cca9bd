"""Jobs on several daemons that share their passes on each of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator

import pytest

from daemon import TIRELESS, Daemon, wait_for
from jobs import ENDLESS, LONG, LONG_BATCHES_PER_EPOCH, QUICK
from machines import Cluster, cluster

RATES = ("0.003", "0.01")


@pytest.fixture(scope="module")
def two(graph_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each with a place for one job, or one convoy."""
    with cluster(tmp_path_factory.mktemp("cluster"), 2, graph_folder,
                 (*TIRELESS, "--max-running-jobs", "1")) as shared:
        yield shared


@pytest.fixture(scope="module")
def alone(two: Cluster) -> dict[str, str]:
    """The digest of the job LONG at each rate, on one machine with as many trainers."""
    return {rate: two.leader.json(*LONG, "--lr", rate, "--trainers", "2")["report"]["loss_digest"]
            for rate in RATES}


def begin(two: Cluster, *options: str) -> list[str]:
    """A job for each rate, all of which are queued before the first one runs."""
    blocker = two.leader.json(*ENDLESS, "--detach")["id"]
    two.leader.wait_for_state(blocker, "RUNNING")
    jobs = [two.leader.json(*LONG, "--lr", rate, "--machines", "2", "--checkpoint-every", "10",
                            "--detach", *options)["id"] for rate in RATES]
    two.leader.hearth("job", "cancel", blocker)
    return jobs


def bytes_shared(daemon: Daemon) -> float:
    found = re.search(r"^hearth_convoy_bytes_shared_total (\S+)", daemon.metrics(), re.M)
    assert found is not None
    return float(found[1])


def digests(two: Cluster, jobs: list[str]) -> list[str]:
    for job in jobs:
        two.leader.wait_for_state(job, "SUCCEEDED")
    return [two.leader.json("job", "show", job)["report"]["loss_digest"] for job in jobs]


def test_jobs_share_their_passes_on_all_machines(two: Cluster, alone: dict[str, str]) -> None:
    cold = ("--strategy", "gnndrive", "--cpu-cache", "16KiB")
    before = [bytes_shared(daemon) for daemon in two.daemons]
    jobs = begin(two, *cold)
    assert digests(two, jobs) == list(alone.values())
    for job, other in (jobs, reversed(jobs)):
        report = two.leader.json("job", "show", job)["report"]
        assert report["company"]["jobs"] == [other]
        assert all(int(share["bytes_read"]) > 0 for share in report["machines"])
    for daemon, known in zip(two.daemons, before):
        assert bytes_shared(daemon) > known


def test_one_that_is_cancelled_leaves_the_other_in_step(two: Cluster,
                                                        alone: dict[str, str]) -> None:
    jobs = begin(two)
    two.leader.wait_for_batches(jobs[1], LONG_BATCHES_PER_EPOCH + 5)
    two.leader.hearth("job", "cancel", jobs[1])
    two.leader.wait_for_state(jobs[1], "CANCELLED")
    assert two.leader.state(jobs[0]) == "RUNNING"
    two.leader.hearth("job", "resume", jobs[1])
    assert digests(two, jobs) == list(alone.values())


@pytest.mark.parametrize("struck", [0, 1], ids=["leader", "member"])
def test_a_kill_amid_a_convoy_changes_nothing(struck: int, two: Cluster,
                                              alone: dict[str, str]) -> None:
    jobs = begin(two)
    two.leader.wait_for_batches(jobs[1], LONG_BATCHES_PER_EPOCH + 5)
    two.daemons[struck].kill()
    if struck == 1:
        for job in jobs:
            two.leader.wait_for_state(job, "WAITING")
    two.daemons[struck].start()
    assert digests(two, jobs) == list(alone.values())


def test_trials_of_a_sweep_share_their_passes(two: Cluster) -> None:
    sweep = two.leader.json("sweep", "submit", *QUICK[1:], "--machines", "2", "--algorithm", "grid",
                            "--space", "lr=0.01,0.003")
    assert sweep["state"] == "SWEEP_DONE", sweep
    trials = [job for job in two.leader.json("job", "list")["jobs"]
              if job["sweep"] == sweep["id"] and job["id"].startswith("train-")]
    assert len(trials) == 2
    for trial, other in (trials, reversed(trials)):
        assert trial["report"]["company"]["jobs"] == [other["id"]]


@pytest.mark.parametrize("algorithm", ["asha", "halving"])
def test_trials_that_are_stopped_leave_the_others_in_step(algorithm: str, two: Cluster) -> None:
    sweep = two.leader.json("sweep", "submit", *QUICK[1:], "--machines", "2", "--algorithm",
                            algorithm, "--space", "lr=log:0.0001:0.1", "--trials", "6",
                            "--epochs", "4")
    assert sweep["state"] == "SWEEP_DONE", sweep
    states = [trial["state"] for trial in sweep["trials"]]
    assert "TRIAL_STOPPED" in states and "TRIAL_SUCCEEDED" in states


def test_members_forget_their_parts_of_a_job_that_is_deleted(two: Cluster) -> None:
    job = two.leader.json(*QUICK, "--machines", "2")["id"]
    parts = [part["id"] for part in two.rank_jobs(two.daemons[1])
             if part["spec"]["rank"]["job_id"] == job]
    assert len(parts) == 1
    two.leader.hearth("job", "delete", job)
    two.leader.json(*QUICK, "--machines", "2")
    assert parts[0] not in {part["id"] for part in two.rank_jobs(two.daemons[1])}


def test_a_member_that_dies_again_and_again_fails_the_job(graph_folder: Path,
                                                          tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster", 2, graph_folder, ("--retries", "2")) as machines:
        # No epoch, which ends with a checkpoint, is over between two deaths.
        job = machines.leader.json(*ENDLESS, "--batch-size", "2", "--machines", "2",
                                   "--detach")["id"]
        for _ in range(2):
            machines.wait_for_rank(machines.daemons[1], "RUNNING")
            machines.daemons[1].kill()
            machines.daemons[1].start()
        wait_for(lambda: machines.leader.state(job) == "FAILED", "the job to fail")
        error = machines.leader.json("job", "show", job)["error"]
        assert error["code"] == 10 and "host-b: hearthd died 2 times in a row" in error["message"]
