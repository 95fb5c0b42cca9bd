"""A second signal while the first one's stop hangs: here, in a disk that takes nothing."""

from __future__ import annotations

import contextlib
import signal

import pytest

from daemon import Daemon, wait_for
from jobs import ENDLESS
from test_power_loss import disk  # noqa: F401
from test_run import Run, runs

SIGNALS = pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])


@SIGNALS
def test_the_daemon_ends_at_once_and_says_so(disk, graph_folder, tmp_path, by):  # noqa: F811
    with contextlib.closing(Daemon(disk.folder / "data", elsewhere=tmp_path)) as daemon:
        daemon.import_graph("planted", graph_folder)
        job = daemon.json(*ENDLESS, "--detach")["id"]
        daemon.wait_for_state(job, "RUNNING")
        with disk.frozen():
            daemon.send_signal(signal.SIGTERM)
            wait_for(lambda: "stopping: Terminated" in daemon.log, "the stop to begin")

            def is_told() -> bool:
                daemon.send_signal(by)  # The first ones are taken for the same stop.
                return f"second signal ({signal.strsignal(by)})" in daemon.log
            wait_for(is_told, "the end to be told", poll_seconds=0.2)
        daemon.wait_for_death(by)
        daemon.start()
        daemon.wait_for_state(job, "RUNNING")


@SIGNALS
def test_a_run_ends_at_once_and_says_so(disk, graph_folder, by):  # noqa: F811
    private = Run(disk.folder, graph_folder)
    begun = private.begin(*ENDLESS[1:])
    private.wait_for_epoch(begun)
    pid = private.daemon
    with disk.frozen():
        def has_ended() -> bool:
            begun.send_signal(by)
            return begun.poll() is not None
        wait_for(has_ended, "the run to end", poll_seconds=0.2)
    _, err = begun.communicate()
    assert begun.returncode == -by
    assert f"second signal ({signal.strsignal(by)})" in err
    wait_for(lambda: not runs(pid), "hearthd to be gone")
