"""Datasets that members of a cluster copy from each other."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import Iterator

import pytest

from daemon import TIRELESS, Daemon, wait_for
from jobs import QUICK
from machines import Cluster, cluster

# Features alone: 400 MB, so that a copy is met in the middle.
LARGE = ("dataset", "generate", "large", "--nodes", "200000", "--edges", "400000", "--dim", "512")
ON_LARGE = ("--dataset", "large", "--epochs", "1", "--batch-size", "1024")
SAME = ("loss_digest", "test_metric", "kept_epoch")


@pytest.fixture(scope="module")
def two(graph_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """host-a has the dataset `large`, too."""
    with cluster(tmp_path_factory.mktemp("cluster"), 2, graph_folder, TIRELESS) as shared:
        shared.leader.hearth(*LARGE)
        yield shared


@contextlib.contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    daemon.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.send_signal(signal.SIGCONT)


def copy(daemon: Daemon, name: str, *flags: str) -> dict:
    return daemon.json("dataset", "copy", name, "--from", "host-a", *flags)


def fingerprint(daemon: Daemon, name: str) -> str:
    return daemon.json("dataset", "show", name)["fingerprint"]


def unfinished_bytes(daemon: Daemon) -> int:
    """Bytes of unfinished datasets; files may vanish meanwhile."""
    total = 0
    for file in (daemon.data_dir / "datasets").glob("*.tmp/*"):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def wait_for_a_quarter(daemon: Daemon) -> None:
    wait_for(lambda: unfinished_bytes(daemon) > 100_000_000, "a quarter of a copy",
             poll_seconds=0.002)


def import_job_of(daemon: Daemon, name: str) -> dict:
    """The newest job that makes or has made the dataset."""
    return max((job for job in daemon.json("job", "list")["jobs"]
                if (job["spec"]["import"] or {}).get("name") == name),
               key=lambda job: int(job["id"].removeprefix("import-")))


def same_as_alone(machines: Cluster, report: dict, *options: str) -> bool:
    alone = machines.leader.json(*QUICK, *options, "--trainers", "2")["report"]
    return [report[key] for key in SAME] == [alone[key] for key in SAME]


def test_a_copy_is_the_same_dataset(two: Cluster, other_folder: Path) -> None:
    two.leader.import_graph("other", other_folder)
    copier = two.daemons[1]
    shown = copier.hearth("dataset", "copy", "other", "--from", "host-a").out
    assert "copied other: 50,000 nodes" in shown
    assert fingerprint(copier, "other") == fingerprint(two.leader, "other")
    copier.hearth("dataset", "verify", "other")
    job = import_job_of(copier, "other")
    assert job["spec"]["import"]["from_member"] == "host-a"
    assert "host-a" in copier.hearth("job", "show", job["id"]).out
    options = ("--dataset", "other", "--epochs", "1", "--batch-size", "1024")
    together = two.leader.json(*QUICK, *options, "--machines", "2")["report"]
    assert same_as_alone(two, together, *options)


def test_features_in_place_become_files_of_the_copy(two: Cluster, graph_folder: Path) -> None:
    two.leader.import_graph("placed", graph_folder, "--in-place")
    copier = two.daemons[1]
    copy(copier, "placed")
    assert fingerprint(copier, "placed") == fingerprint(two.leader, "placed")
    assert copier.json("dataset", "show", "placed")["node_types"][0]["feature_path"] == ""
    assert (copier.data_dir / "datasets/placed/node.features.npy").exists()
    copier.hearth("dataset", "verify", "placed")
    together = two.leader.json(*QUICK, "--dataset", "placed", "--machines", "2")["report"]
    assert same_as_alone(two, together, "--dataset", "placed")


def test_a_killed_copy_goes_on_where_it_was(two: Cluster) -> None:
    copier = two.daemons[1]
    job = copy(copier, "large", "--detach")["id"]
    wait_for_a_quarter(copier)
    with stopped(two.leader):
        copier.kill()
    before = unfinished_bytes(copier)
    copier.start()
    copier.wait_for_state(job, "SUCCEEDED")
    assert "from an earlier run" in copier.hearth("job", "logs", job).out
    assert before >= 100_000_000
    assert fingerprint(copier, "large") == fingerprint(two.leader, "large")
    copier.hearth("dataset", "verify", "large")
    copier.hearth("dataset", "delete", "large")


def test_a_copy_waits_for_the_other_member(two: Cluster) -> None:
    copier = two.daemons[1]
    job = copy(copier, "large", "--detach")["id"]
    wait_for_a_quarter(copier)
    two.leader.kill()
    copier.wait_for_state(job, "WAITING")
    assert "host-a" in copier.json("job", "show", job)["waiting_reason"]
    two.leader.start()
    copier.wait_for_state(job, "SUCCEEDED")
    assert "from an earlier run" in copier.hearth("job", "logs", job).out
    copier.hearth("dataset", "delete", "large")


def test_a_copy_is_cancelled_though_the_other_member_hangs(two: Cluster) -> None:
    copier = two.daemons[1]
    job = copy(copier, "large", "--detach")["id"]
    wait_for_a_quarter(copier)
    with stopped(two.leader):
        copier.hearth("job", "cancel", job)
        copier.wait_for_state(job, "CANCELLED")
    wait_for(lambda: unfinished_bytes(copier) == 0, "its files to be gone")


def test_a_dataset_is_not_deleted_while_it_is_copied(two: Cluster) -> None:
    copier = two.daemons[1]
    job = copy(copier, "large", "--detach")["id"]
    wait_for_a_quarter(copier)
    with stopped(copier):
        refused = two.leader.hearth("dataset", "delete", "large", code=1)
    assert "is being copied by another machine" in refused.err
    copier.hearth("job", "cancel", job)
    copier.wait_for_state(job, "CANCELLED")


def test_what_cannot_be_copied_is_refused(two: Cluster, daemon: Daemon) -> None:
    copier = two.daemons[1]
    for name, member, words in (("nothing", "host-a", 'no dataset "nothing"'),
                                ("nothing", "host-x", 'no member "host-x"'),
                                ("nothing", "host-b", "this daemon itself"),
                                ("planted", "host-a", "exists already")):
        refused = copier.hearth("dataset", "copy", name, "--from", member, code=1)
        assert words in refused.err, refused
    alone = daemon.hearth("dataset", "copy", "nothing", "--from", "host-a", code=1)
    assert "--cluster" in alone.err


def test_members_fetch_a_dataset_that_they_lack(two: Cluster, graph_folder: Path) -> None:
    two.leader.import_graph("fetched", graph_folder)
    fetch = (*QUICK, "--dataset", "fetched", "--machines", "2")
    refused = two.leader.hearth(*fetch, code=1)
    assert "host-b" in refused.err and "fetched" in refused.err
    report = two.leader.json(*fetch, "--fetch-missing", "true")["report"]
    assert same_as_alone(two, report, "--dataset", "fetched")
    job = import_job_of(two.daemons[1], "fetched")
    assert (job["owner"], job["state"]) == ("member:host-a", "SUCCEEDED")
    # Whoever has deleted the dataset since gets it again.
    two.daemons[1].hearth("dataset", "delete", "fetched")
    assert two.leader.json(*fetch, "--fetch-missing", "true")["report"]["loss_digest"] == \
        report["loss_digest"]


def test_a_fetch_goes_on_after_a_kill_of_either_side(two: Cluster) -> None:
    job = two.leader.json(*QUICK, *ON_LARGE, "--machines", "2", "--fetch-missing", "true",
                          "--detach")["id"]
    copier = two.daemons[1]
    wait_for_a_quarter(copier)
    with stopped(two.leader):
        copier.kill()
    copier.start()
    two.leader.kill()
    two.leader.start()
    two.leader.wait_for_state(job, "SUCCEEDED")
    report = two.leader.json("job", "show", job)["report"]
    assert same_as_alone(two, report, *ON_LARGE)
    log = copier.hearth("job", "logs", import_job_of(copier, "large")["id"]).out
    assert "from an earlier run" in log
    copier.hearth("dataset", "delete", "large")


def test_a_cancelled_fetch_ends_the_job_and_is_resumed(two: Cluster) -> None:
    job = two.leader.json(*QUICK, *ON_LARGE, "--machines", "2", "--fetch-missing", "true",
                          "--detach")["id"]
    copier = two.daemons[1]
    wait_for_a_quarter(copier)
    fetching = import_job_of(copier, "large")["id"]
    reason = wait_for(lambda: two.leader.json("job", "show", job).get("waiting_reason"),
                      "the leader to wait")
    assert reason.startswith("machines: host-b") and fetching in reason, reason
    copier.hearth("job", "cancel", fetching)
    two.leader.wait_for_state(job, "FAILED")
    error = two.leader.json("job", "show", job)["error"]["message"]
    assert f"hearth job resume {fetching}" in error and "host-b" in error, error
    copier.hearth("job", "resume", fetching)
    two.leader.hearth("job", "resume", job)
    two.leader.wait_for_state(job, "SUCCEEDED")
