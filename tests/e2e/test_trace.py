"""The trace of a call is told of its job: in the job, in the log and in the audit log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from daemon import HEARTH, run
from jobs import QUICK

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def traced(start_daemon, graph_folder):
    daemon = start_daemon("--log-format", "json")
    daemon.import_graph("planted", graph_folder)
    return daemon


def test_a_job_keeps_the_trace_of_its_submission(traced):
    done = run(traced.command(*QUICK, "--output", "json"), env={"TRACEPARENT": PARENT})
    assert done.code == 0, done
    job = done.json["id"]
    lines = [json.loads(line) for line in traced.log.splitlines()]
    of_job = [line for line in lines if line.get("job") == job]
    assert len(of_job) >= 2 and all(line["trace_id"] == TRACE for line in of_job)
    audit = [json.loads(line)
             for line in (traced.data_dir / "audit.log").read_text().splitlines()]
    assert [line["trace_id"] for line in audit if line["target"] == job] == [TRACE]
    traced.kill()
    traced.start()
    assert traced.json("job", "show", job)["trace_id"] == TRACE
    assert re.search(rf"^trace +{TRACE}$", traced.hearth("job", "show", job).out, re.MULTILINE)


def test_a_sweep_and_its_jobs_keep_the_trace_of_its_submission(traced):
    options = ["sweep", "submit", *QUICK[1:], "--space", "clip-norm=1,2", "--algorithm", "grid",
               "--output", "json"]
    done = run(traced.command(*options), env={"TRACEPARENT": PARENT})
    assert done.code == 0, done
    sweep = done.json["id"]
    assert traced.json("sweep", "show", sweep)["trace_id"] == TRACE
    assert f"trace {TRACE}" in traced.hearth("sweep", "show", sweep).out.splitlines()
    jobs = [job for job in traced.json("job", "list")["jobs"] if job["sweep"] == sweep]
    assert len(jobs) >= 2 and {job["trace_id"] for job in jobs} == {TRACE}


def test_without_one_it_is_made(traced):
    one, other = (traced.json(*QUICK)["trace_id"] for _ in range(2))
    assert re.fullmatch("[0-9a-f]{32}", one) and one != other
    not_one = run([HEARTH, "--server", traced.address, *QUICK, "--output", "json"],
                  env={"TRACEPARENT": "nonsense"})
    assert re.fullmatch("[0-9a-f]{32}", not_one.json["trace_id"])


def test_the_python_client_sends_it_too(traced, monkeypatch):
    pytest.importorskip("grpc", reason="grpcio is not installed")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "client/python")
    import hearth

    monkeypatch.setenv("TRACEPARENT", PARENT)
    with hearth.Client(traced.address) as client:
        job = client.train({"dataset": "planted", "model": "sage", "fanouts": [5, 5],
                            "hidden": 16, "epochs": 1})
    assert traced.json("job", "show", job.id)["trace_id"] == TRACE
