"""`hearth doctor`: what it finds on this machine and of its daemon, and what it says to that."""

from __future__ import annotations

import pytest

from daemon import HEARTH, run
from jobs import ENDLESS

EVERYWHERE = {"versions", "io_uring", "open files", "locked memory", "memory", "processor", "gpu",
              "data directory", "file system", "free space", "disk", "socket", "clock"}


def findings(result):
    return {one["check"]: one for one in result.json["findings"]}


def alone(folder, *flags):
    """Without a daemon."""
    return run([HEARTH, "doctor", "--output", "json", *flags],
               env={"HEARTH_HOME": str(folder), "HOME": str(folder)})


def test_a_machine_without_a_daemon(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    result = alone(folder, "--data-dir", str(folder))
    found = findings(result)
    assert EVERYWHERE <= set(found)
    assert {"random reads", "sequential reads"} <= set(found) or "disk speed" in found
    assert found["daemon"]["severity"] == "note"
    assert found["data directory"]["severity"] == "ok"
    assert result.json["ok"] == (result.code == 0)
    assert result.json["ok"] == all(one["severity"] != "problem" for one in found.values())
    assert not list(folder.iterdir()), "the probe's file stayed"


def test_what_is_wrong_is_a_problem_with_a_remedy(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o777)
    result = alone(folder, "--data-dir", str(folder))
    assert result.code == 1 and not result.json["ok"]
    found = findings(result)["data directory"]
    assert found["severity"] == "problem" and "0777" in found["value"]
    assert found["remedy"] == f"chmod 0700 {folder}"


def test_a_daemon_that_is_named_must_answer(tmp_path):
    result = alone(tmp_path, "--server", f"unix:{tmp_path}/nobody.sock")
    assert result.code == 1
    assert findings(result)["daemon"]["severity"] == "problem"


@pytest.mark.parametrize("by", ["socket", "address"])
def test_a_daemon_is_looked_at(daemon, by):
    server = daemon.address if by == "address" else f"unix:{daemon.data_dir}/hearth.sock"
    result = run([HEARTH, "--server", server, "doctor", "--output", "json"])
    found = findings(result)
    assert EVERYWHERE | {"daemon's clock", "daemon reads by", "memory of jobs"} <= set(found)
    assert found["daemon's clock"]["severity"] == "ok"
    assert found["data directory"]["severity"] == "ok"
    assert found["data directory"]["value"].startswith(str(daemon.data_dir))
    assert found["socket"]["severity"] == "ok"
    assert found["open files"]["value"].startswith("hearthd ")


def test_the_disk_is_left_alone_while_jobs_run(daemon):
    job = daemon.json(*ENDLESS, "--detach")["id"]
    daemon.wait_for_state(job, "RUNNING")
    found = findings(daemon.hearth("doctor", "--output", "json", code=None))
    assert found["disk speed"]["severity"] == "note"
    assert "while a job runs" in found["disk speed"]["value"]
    assert "random reads" not in found
    daemon.hearth("job", "cancel", job)
    daemon.hearth("job", "watch", job, code=None)
    assert "random reads" in findings(daemon.hearth("doctor", "--output", "json", code=None))


def test_people_get_a_table(daemon):
    result = daemon.hearth("doctor", code=None)
    lines = result.out.splitlines()
    assert any(line.startswith("ok") and "versions" in line for line in lines)
    assert all(line.startswith(("ok ", "note ", "problem ", " ")) for line in lines)
