"""`hearth top`: what it shows of a daemon, once and live on a real terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from daemon import CATCH_INTERRUPTS, HEARTH, PATIENCE_SECONDS, Daemon, run, wait_for
from jobs import ENDLESS

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Terminal:
    """A client on a terminal of its own, and all that it has written there."""

    def __init__(self, command: list[str], rows: int = 24, columns: int = 200) -> None:
        self._keys, near = pty.openpty()
        self._near = near
        self.resize(rows, columns)
        self.settings = termios.tcgetattr(near)
        self.process = subprocess.Popen(
            [*CATCH_INTERRUPTS, *command], stdin=near, stdout=near, stderr=near,
            env={**os.environ, "TERM": "xterm"})
        self.text = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._near, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self) -> str:
        while select.select([self._keys], [], [], 0)[0]:
            self.text += os.read(self._keys, 1 << 16).decode(errors="replace")
        return self.text

    def wait_for(self, pattern: str) -> None:
        """Until a screen that is yet to be drawn shows it."""
        begin = len(self.read())
        wait_for(lambda: re.search(pattern, self.read()[begin:]), f"the screen to show {pattern!r}")

    def press(self, key: str) -> None:
        os.write(self._keys, key.encode())

    def end(self) -> int:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it goes on"
            self.read()  # A terminal that nobody reads blocks who writes.
            time.sleep(0.01)
        self.read()
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._near)
        os.close(self._keys)


def train_in(daemon, other_folder):
    """Gives a daemon a job that trains, of which no cache holds all rows, and one behind it."""
    daemon.import_graph("planted", other_folder)
    job = (*ENDLESS, "--strategy", "gnndrive", "--cpu-cache", "64KiB", "--fanouts", "2,2",
           "--hidden", "16", "--batch-size", "256")
    daemon.running = daemon.json(*job, "--detach")["id"]
    daemon.queued = daemon.json(*job, "--seed", "7", "--detach")["id"]
    wait_for(lambda: daemon.json("job", "show", daemon.running)["report"]["epochs"],
             "an epoch", poll_seconds=0.2)
    return daemon


@pytest.fixture(scope="module")
def training(other_folder, tmp_path_factory):
    """A daemon that trains, for all tests that only look at it."""
    data_dir = tmp_path_factory.mktemp("training") / "data"
    with contextlib.closing(Daemon(data_dir)) as shared:
        yield train_in(shared, other_folder)


@pytest.fixture
def own_training(start_daemon, other_folder):
    """One for a test that stops or kills it."""
    return train_in(start_daemon(), other_folder)


@contextlib.contextmanager
def terminal_of(daemon):
    with contextlib.closing(Terminal(daemon.command("top"))) as made:
        made.wait_for(daemon.running)
        yield made


@pytest.fixture
def terminal(training):
    with terminal_of(training) as made:
        yield made


def test_json_tells_what_a_job_does(training):
    shown = training.json("top")
    assert shown["jobs_running"] == 1 and shown["jobs_queued"] == 1
    running, queued = shown["jobs"]
    assert (running["id"], queued["id"]) == (training.running, training.queued)
    assert running["state"] == "running" and running["epochs"] == 100_000
    assert running["phase"] and running["rows_per_second"] > 0
    assert running["bound_by"] in running["stages"]
    assert max(running["stages"].values()) == running["stages"][running["bound_by"]] <= 1
    assert 0 <= running["hits"]["cpu_cache"] <= 1
    assert queued["bound_by"] is None
    assert shown["disk"]["reads_per_second"] > 0
    assert sum(shown["memory"]["by_owner"].values()) == (
        shown["memory"]["reserved_bytes"] + shown["memory"]["warm_bytes"])


def test_once_prints_one_table(training):
    out = training.hearth("top", "--once").out
    assert "\x1b" not in out
    line, = [line for line in out.splitlines() if line.startswith(training.running)]
    assert "running" in line and "of 100,000" in line and "cpu_cache" in line
    assert re.search(r"train \d+%", line)
    # Without a terminal there is nothing to refresh.
    assert training.running in training.hearth("top").out


def test_a_daemon_without_jobs(daemon):
    assert "no job runs or waits" in daemon.hearth("top", "--once").out
    nobody = run([HEARTH, "--server", "unix:/nowhere.sock", "top"])
    assert nobody.code == 3


@pytest.mark.parametrize("how", ["q", "interrupt", "termination"])
def test_it_ends_cleanly(terminal, how):
    terminal.wait_for("reads/s")
    if how == "q":
        terminal.press("q")
    else:
        terminal.process.send_signal(
            signal.SIGINT if how == "interrupt" else signal.SIGTERM)
    assert terminal.end() == 0
    assert terminal.text.startswith(ENTER) and terminal.text.endswith(LEAVE)
    assert termios.tcgetattr(terminal._near) == terminal.settings


def test_it_fits_the_terminal_whatever_its_size(terminal, training):
    terminal.resize(4, 30)
    terminal.wait_for(r"\.\.\. \d+ more")
    terminal.wait_for(r"more\x1b\[K\x1b\[J")
    drawn = re.findall(r"\x1b\[H([^\0]*?)\x1b\[K\x1b\[J", terminal.read())[-1]
    lines = drawn.split("\x1b[K\r\n")
    assert len(lines) == 4 and all(len(line) <= 30 for line in lines)
    terminal.resize(24, 200)
    terminal.wait_for(training.queued)


def test_it_waits_for_a_daemon_that_is_slow_at_first(own_training):
    os.kill(own_training.pid, signal.SIGSTOP)
    with contextlib.closing(Terminal(own_training.command("top"))) as terminal:
        time.sleep(4)  # Longer than a look may take later.
        os.kill(own_training.pid, signal.SIGCONT)
        terminal.wait_for(own_training.running)


def test_it_outlives_the_daemon(own_training):
    with terminal_of(own_training) as terminal:
        own_training.kill()
        terminal.wait_for("DOES NOT ANSWER")
        own_training.start()
        terminal.wait_for("started again 1 time")
        terminal.wait_for(f"{own_training.running} .*running")
        terminal.press("q")
        assert terminal.end() == 0
