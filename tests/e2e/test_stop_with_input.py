"""hearthd --stop-with-input: it ends with the processes that hold its standard input open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from daemon import HEARTHD, PATIENCE_SECONDS, run, wait_for
from test_run import runs

# Starts a daemon with the end of a pipe as its input, and goes on when told.
_PARENT = """
import subprocess, sys, threading
def start():
    log = open(sys.argv[1], "wb")
    started.append(subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=log, stderr=log))
started = []
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(started[0].pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def command(tmp_path):
    return [HEARTHD, "--data-dir", str(tmp_path / "data"), "--metrics-listen", "",
            "--stop-with-input", "on"]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def wait_until_ready(log: Path) -> None:
    wait_for(lambda: log.exists() and " ready: " in log.read_text(), "hearthd to serve")


def is_stopped(log: Path) -> bool:
    return log.read_text().rstrip().endswith("stopped")


def test_it_stops_in_order_when_the_process_that_started_it_is_killed(command, log):
    """Not before: the thread that started it ends at once."""
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, str(log), *command],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    daemon = int(parent.stdout.readline())
    wait_until_ready(log)
    assert runs(daemon) and not is_stopped(log)
    parent.kill()
    parent.communicate()
    wait_for(lambda: not runs(daemon), "hearthd to be gone")
    assert "stopping: standard input has ended" in log.read_text()
    assert is_stopped(log)


def test_it_stops_though_its_input_ended_as_it_started(command, log):
    with open(log, "wb") as out:
        daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)
    daemon.stdin.close()
    assert daemon.wait(PATIENCE_SECONDS) == 0
    assert is_stopped(log)


def test_bytes_and_one_of_two_writers_do_not_stop_it(command, log):
    reader, writer = os.pipe()
    other = os.dup(writer)
    with open(log, "wb") as out:
        daemon = subprocess.Popen(command, stdin=reader, stdout=out, stderr=out)
    os.close(reader)
    os.write(writer, b"x" * 60_000)
    os.close(writer)
    wait_until_ready(log)
    blocks = threading.Thread(target=lambda: os.write(other, b"x" * 200_000))
    blocks.start()
    blocks.join(PATIENCE_SECONDS)  # More than the pipe holds: it is read.
    assert not blocks.is_alive() and daemon.poll() is None
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(PATIENCE_SECONDS) == 0
    assert "stopping: Terminated" in log.read_text()
    os.close(other)


def test_an_input_that_does_not_end_with_its_writers_is_refused(command):
    refused = run(command, stdin=subprocess.DEVNULL)
    assert refused.code == 1
    assert "--stop-with-input: standard input is neither a pipe nor a socket" in refused.err


def test_the_end_of_the_input_does_nothing_without_it(command, log):
    with open(log, "wb") as out:
        daemon = subprocess.Popen([*command[:-1], "off"], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=out)
    wait_until_ready(log)
    with pytest.raises(subprocess.TimeoutExpired):
        daemon.wait(0.5)
    daemon.kill()
    daemon.wait()
