"""The service manager: the protocol of sd_notify, the log, and the unit that Hearth ships."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from daemon import PATIENCE_SECONDS

SYSTEMD = Path(__file__).resolve().parents[2] / "deploy/systemd"
MOST_EXPOSED = 2.0


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """What a service manager hears."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(PATIENCE_SECONDS)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield heard


def test_the_manager_hears_of_ready_alive_and_stopping(manager, start_daemon, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    daemon = start_daemon()
    assert manager.recv(100) == b"READY=1"
    for _ in range(3):
        assert manager.recv(100) == b"WATCHDOG=1"
    daemon.stop()
    heard = b"WATCHDOG=1"
    while heard == b"WATCHDOG=1":
        heard = manager.recv(100)
    assert heard == b"STOPPING=1"


def test_without_a_watchdog_nobody_hears_of_one(manager, start_daemon):
    daemon = start_daemon()
    daemon.stop()
    assert [manager.recv(100), manager.recv(100)] == [b"READY=1", b"STOPPING=1"]


def test_each_line_of_the_log_is_json_on_request(start_daemon, graph_folder):
    daemon = start_daemon("--log-format", "json")
    daemon.import_graph("planted", graph_folder)
    daemon.stop()
    lines = [json.loads(line) for line in daemon.log.splitlines()]
    assert all(line["time"] and line["level"] for line in lines)
    assert [(line["job"], line["message"].split("]: ")[-1]) for line in lines
            if "job" in line] == [("import-1", "started"), ("import-1", "SUCCEEDED")]
    assert lines[-1]["message"] == "stopped" and "job" not in lines[-1]


@pytest.fixture
def analyze():
    path = shutil.which("systemd-analyze")
    if path is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    return lambda *arguments: subprocess.run([path, *arguments], capture_output=True, text=True,
                                             check=False)


def test_the_unit_is_sound(analyze, tmp_path):
    # The program that the unit starts is not here.
    unit = (SYSTEMD / "hearthd.service").read_text()
    copy = tmp_path / "hearthd.service"
    copy.write_text(unit.replace("/usr/bin/hearthd", "/bin/true"))
    verified = analyze("verify", "--man=no", str(copy))
    assert verified.returncode == 0 and str(copy.name) not in verified.stderr, verified.stderr


def test_the_unit_is_little_exposed(analyze):
    assessed = analyze("security", "--offline=true", str(SYSTEMD / "hearthd.service"))
    level = re.search(r"Overall exposure level for hearthd.service: ([\d.]+)", assessed.stdout)
    assert level, assessed.stdout + assessed.stderr
    assert float(level[1]) <= MOST_EXPOSED


def test_system_calls_that_the_daemon_needs_are_allowed(analyze):
    unit = (SYSTEMD / "hearthd.service").read_text()
    groups = re.findall(r"@[\w-]+", re.search(r"^SystemCallFilter=(@.*)$", unit, re.MULTILINE)[1])
    allowed = "".join(analyze("syscall-filter", group).stdout for group in groups)
    for call in ("io_uring_setup", "io_uring_enter", "io_uring_register"):
        assert call in allowed
    assert "WatchdogSec=" in unit and "Type=notify" in unit
