"""Nobody waits needlessly: lanes, priorities, a daemon that does not answer."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from daemon import PATIENCE_SECONDS, wait_for
from jobs import ENDLESS, LONG, QUICK


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    return daemon


def test_short_jobs_run_beside_training(fresh, graph_folder, tmp_path):
    trained = fresh.json(*QUICK)["id"]
    training = fresh.json(*ENDLESS, "--detach")["id"]
    fresh.wait_for_batches(training, 1)
    queued = fresh.json(*QUICK, "--detach")["id"]
    fresh.json("explain", *QUICK[1:])
    fresh.json("dataset", "verify", "planted")
    fresh.json("dataset", "export", "planted", "--to", str(tmp_path / "dataset"))
    fresh.json("export", trained, "--to", str(tmp_path / "model"))
    fresh.import_graph("again", graph_folder)
    assert fresh.state(training) == "RUNNING"
    assert fresh.state(queued) == "QUEUED"
    fresh.hearth("job", "cancel", training)
    fresh.wait_for_state(queued, "SUCCEEDED")


def test_a_higher_priority_runs_first(fresh):
    training = fresh.json(*ENDLESS, "--detach")["id"]
    fresh.wait_for_batches(training, 1)
    # Its data are others, lest it shares the passes of the urgent one.
    usual = fresh.json(*QUICK, "--data-seed", "7", "--detach")["id"]
    urgent = fresh.json(*QUICK, "--detach", "--priority", "7")["id"]
    assert fresh.json("job", "show", urgent)["priority"] == 7
    assert "priority" in fresh.hearth("job", "show", urgent).out
    fresh.hearth(*QUICK, "--detach", "--priority", "101", code=2)
    fresh.hearth("job", "cancel", training)
    fresh.wait_for_state(usual, "SUCCEEDED")
    usual, urgent = (fresh.json("job", "show", job) for job in (usual, urgent))
    assert urgent["end_time"] <= usual["start_time"]


class Lines:
    """The lines of a stream, with the time at which each came."""

    def __init__(self, stream):
        self.lines = []
        self._stream = stream
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        for line in self._stream:
            self.lines.append((time.monotonic(), line))

    def wait_for(self, words):
        return wait_for(lambda: next((at for at, line in self.lines if words in line), None),
                        f"{words!r} among {self.lines}")


def test_a_watch_tells_that_the_daemon_does_not_answer(fresh):
    # One that is to last: its end comes after the silence.
    watching = fresh.begin(*LONG, "--hidden", "256", "--epochs", "3")
    lines = Lines(watching.stderr)
    lines.wait_for("running")
    os.kill(fresh.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        told = lines.wait_for("the daemon has not answered for")
        # Far from what it would be without the question whether it is there: never.
        assert told - stopped < 40
        # A call of its own tells the same and gives up.
        unary = fresh.begin("status")
        err = unary.communicate(timeout=PATIENCE_SECONDS)[1]
        assert unary.returncode == 3
        assert "the daemon has not answered for" in err and "hearthd at" in err
    finally:
        os.kill(fresh.pid, signal.SIGCONT)
    lines.wait_for("the daemon answers again")
    assert watching.wait(PATIENCE_SECONDS) == 0
    texts = [line for _, line in lines.lines]
    for epoch in (1, 2, 3):
        assert sum(line.startswith(f"epoch {epoch}:") for line in texts) == 1
