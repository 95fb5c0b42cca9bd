"""Watching, logging, cancelling and deleting jobs."""

from __future__ import annotations

import signal

from daemon import PATIENCE_SECONDS, wait_for
from jobs import ENDLESS, QUICK


def test_detach_gives_the_id_at_once(daemon):
    started = daemon.json(*QUICK, "--detach")
    assert list(started) == ["id"]
    ended = daemon.json("job", "watch", started["id"])
    assert ended["state"] == "SUCCEEDED"
    assert ended == daemon.json("job", "show", started["id"])


def test_list_has_the_newest_first_and_filters(daemon):
    first = daemon.json(*QUICK)["id"]
    second = daemon.json(*QUICK)["id"]
    ids = [job["id"] for job in daemon.json("job", "list")["jobs"]]
    assert ids.index(second) < ids.index(first)
    states = {job["state"] for job in daemon.json("job", "list", "--state", "succeeded")["jobs"]}
    assert states == {"SUCCEEDED"}
    assert second in daemon.hearth("job", "list").out


def test_logs_tell_what_happened(daemon):
    job = daemon.json(*QUICK)["id"]
    lines = daemon.json("job", "logs", job)["lines"]
    assert lines and all(line["text"] and line["time"] for line in lines)
    assert len(daemon.hearth("job", "logs", job).out.splitlines()) == len(lines)


def test_a_running_job_is_cancelled(daemon):
    watching = daemon.begin(*ENDLESS)
    job = wait_for(lambda: next((job["id"] for job in daemon.json(
        "job", "list", "--state", "running")["jobs"]), None), "the job to run")
    daemon.wait_for_batches(job, 1)
    daemon.hearth("job", "cancel", job)
    _, err = watching.communicate(timeout=PATIENCE_SECONDS)
    assert watching.returncode == 1
    assert "cancelled" in err
    assert daemon.state(job) == "CANCELLED"
    daemon.hearth("job", "cancel", job)  # No error: it has ended.
    daemon.hearth("job", "watch", job, code=1)


def test_a_queued_job_is_cancelled(daemon):
    running = [daemon.json(*ENDLESS, "--detach")["id"] for _ in range(2)]
    queued = daemon.json(*QUICK, "--detach")["id"]
    assert daemon.state(queued) == "QUEUED"
    daemon.hearth("job", "cancel", queued)
    assert daemon.state(queued) == "CANCELLED"
    for job in running:
        daemon.hearth("job", "cancel", job)
        daemon.wait_for_state(job, "CANCELLED")


def test_ctrl_c_leaves_the_job_running(daemon):
    watching = daemon.begin(*ENDLESS)
    job = watching.stderr.readline().strip()  # The id, by then Ctrl-C is caught.
    daemon.wait_for_batches(job, 1)
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=PATIENCE_SECONDS)
    assert watching.returncode == 130
    assert f"job watch {job}" in err
    assert daemon.state(job) == "RUNNING"
    daemon.hearth("job", "cancel", job)
    assert daemon.json("job", "watch", job, code=1)["state"] == "CANCELLED"


def test_deleted_jobs_are_gone(daemon):
    job = daemon.json(*QUICK)
    daemon.hearth("job", "delete", job["id"])
    assert job["id"] in daemon.hearth("job", "show", job["id"], code=1).err
    daemon.hearth("job", "delete", job["id"], code=1)


def test_a_running_job_is_not_deleted(daemon):
    job = daemon.json(*ENDLESS, "--detach")["id"]
    daemon.hearth("job", "delete", job, code=1)
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
    daemon.hearth("job", "delete", job)


def test_status_counts_jobs(daemon):
    job = daemon.json(*ENDLESS, "--detach")["id"]
    daemon.wait_for_batches(job, 1)
    status = daemon.json("status")
    assert status["pid"] == daemon.pid
    assert status["jobs_running"] == 1
    assert status["datasets"] == 1
    assert status["memory_bytes"] > 0
    assert str(daemon.data_dir) in daemon.hearth("status").out
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
