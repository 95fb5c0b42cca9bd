"""Private daemons of Python processes: they end with them, and serve the next one as before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon import HEARTHD, PATIENCE_SECONDS, Daemon, wait_for
from jobs import LONG_OPTIONS
from test_run import runs

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")

import hearth  # noqa: E402
from hearth.private import dataset_name  # noqa: E402

# Runs the cells that come on standard input, and answers each with what it calls `result`.
_INTERPRETER = """
import json, os, subprocess, sys, threading, hearth
names = dict(globals())
for line in sys.stdin:
    exec(json.loads(line), names)
    print(json.dumps(names.pop("result", None)), flush=True)
"""
_LONG = {name: value for name, value in LONG_OPTIONS.items() if name != "dataset"}
_OPEN = "daemon = hearth.PrivateDaemon(data_dir); client = daemon.client()"


@pytest.fixture(autouse=True)
def hearthd(monkeypatch):
    monkeypatch.setenv("HEARTHD", HEARTHD)


class Notebook:
    """A Python process that runs cells, and may open the daemon over `data_dir`."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._process = subprocess.Popen([sys.executable, "-c", _INTERPRETER], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         start_new_session=True)
        self.begin(f"data_dir = {str(data_dir)!r}")
        self.result()

    def __call__(self, cell: str) -> Any:
        self.begin(cell)
        return self.result()

    def begin(self, cell: str) -> None:
        self._process.stdin.write(json.dumps(cell) + "\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        line = self._process.stdout.readline()
        assert line, f"the notebook ended: {log_of(self.data_dir)}"
        return json.loads(line)

    def interrupt(self) -> None:
        """As a terminal does: all processes of its group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def wait(self) -> None:
        self._process.wait(PATIENCE_SECONDS)
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def start_notebook(data_dir):
    started = []

    def start() -> Notebook:
        started.append(Notebook(data_dir))
        return started[-1]
    yield start
    for notebook in started:
        notebook.kill()
    if (data_dir / "hearth.lock").exists():
        wait_for_end(pid_of(data_dir))


@pytest.fixture
def data_dir(tmp_path):
    return tmp_path / "private"


def pid_of(data_dir: Path) -> int:
    return int((data_dir / "hearth.lock").read_text())


def log_of(data_dir: Path) -> str:
    log = data_dir / "hearthd.log"
    return log.read_text(errors="replace") if log.exists() else "there is no log"


def wait_for_end(pid: int) -> None:
    wait_for(lambda: not runs(pid), "hearthd to be gone")


def test_it_serves_until_it_is_closed(data_dir):
    with hearth.PrivateDaemon(data_dir, memory_limit="1GiB",
                              flags=["--max-running-jobs", "2"]) as daemon:
        assert daemon.address == f"unix:{data_dir}/hearth.sock"
        with daemon.client() as client:
            status = client.status()
        assert status.data_dir == str(data_dir)
        assert status.message.memory_limit_bytes == 2**30
        pid = pid_of(data_dir)
        assert runs(pid)
    assert not runs(pid)
    assert log_of(data_dir).rstrip().endswith("stopped")
    assert data_dir.stat().st_mode & 0o777 == 0o700
    daemon.close()


def test_one_path_has_one_daemon_in_a_process(data_dir, tmp_path):
    first = hearth.PrivateDaemon(data_dir)
    (tmp_path / "link").symlink_to(tmp_path)
    second = hearth.PrivateDaemon(tmp_path / "link/private")
    pid = pid_of(data_dir)
    first.close()
    first.close()
    assert second.address == first.address
    with second.client() as client:
        client.status()
    assert pid_of(data_dir) == pid
    second.close()
    assert not runs(pid)
    assert log_of(data_dir).count(" ready: ") == 1


@pytest.mark.parametrize("end", [
    "os.kill(os.getpid(), 9)", "os._exit(3)", "sys.exit()", "os.kill(os.getpid(), 15)"])
def test_it_ends_with_the_process_in_whatever_way(start_notebook, data_dir, end):
    notebook = start_notebook()
    notebook(_OPEN)
    pid = pid_of(data_dir)
    assert runs(pid)
    notebook.begin(end)
    notebook.wait()
    wait_for_end(pid)
    assert log_of(data_dir).rstrip().endswith("stopped")


def test_the_end_of_the_thread_that_started_it_is_not_its_end(start_notebook, data_dir):
    notebook = start_notebook()
    notebook(f"""
def start():
    global daemon, client
    {_OPEN}
thread = threading.Thread(target=start)
thread.start()
thread.join()
""")
    pid = pid_of(data_dir)
    assert notebook("result = client.status().data_dir") == str(data_dir)
    assert pid_of(data_dir) == pid and runs(pid)
    notebook.kill()
    wait_for_end(pid)


def test_ctrl_c_in_a_terminal_is_not_for_the_daemon(start_notebook, data_dir):
    notebook = start_notebook()
    notebook(_OPEN + "; import signal; signal.signal(signal.SIGINT, lambda *_: None)")
    pid = pid_of(data_dir)
    notebook.interrupt()
    notebook("daemon.close()")
    assert not runs(pid)
    assert "stopping: Interrupt" not in log_of(data_dir)


def test_children_of_the_process_do_not_keep_it_alive(start_notebook, data_dir):
    """Neither forked ones nor other programs, whatever they inherit."""
    notebook = start_notebook()
    notebook(_OPEN)
    pid = pid_of(data_dir)
    children = notebook("""
forked = os.fork()
if not forked:
    import signal
    signal.pause()
program = subprocess.Popen(["sleep", "1000"], close_fds=False)
result = [forked, program.pid]
""")
    try:
        notebook.kill()
        wait_for_end(pid)
        assert all(map(runs, children))
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


def test_a_fork_while_it_starts_does_not_keep_it_alive(start_notebook, data_dir):
    notebook = start_notebook()
    children = notebook(f"""
import signal
thread = threading.Thread(target=lambda: exec({_OPEN!r}, globals()))
children = []
thread.start()
while thread.is_alive():
    child = os.fork()
    if not child:
        while True:
            signal.pause()
    children.append(child)
    thread.join(0.02)
result = children
""")
    try:
        assert len(children) > 1
        pid = pid_of(data_dir)
        notebook.kill()
        wait_for_end(pid)
        assert all(map(runs, children))
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_leaves_its_parents_daemon_alone_and_may_join_it(start_notebook, data_dir):
    notebook = start_notebook()
    notebook("""
daemon = hearth.PrivateDaemon(data_dir)
reader, writer = os.pipe()
if not os.fork():
    daemon.close()
    others = [os.open("/dev/null", os.O_RDWR) for _ in range(8)]  # In place of the parent's.
    own = hearth.PrivateDaemon(data_dir)
    os.write(writer, own.client().status().data_dir.encode())
    own.close()
    os._exit(0)
""")
    assert notebook("os.close(writer); os.wait(); result = os.read(reader, 4096).decode()") == str(
        data_dir)
    pid = pid_of(data_dir)
    assert notebook("result = daemon.client().status().data_dir") == str(data_dir)
    assert runs(pid) and log_of(data_dir).count(" ready: ") == 1


def test_two_processes_share_it_until_both_have_ended(start_notebook, data_dir):
    first, second = start_notebook(), start_notebook()
    for notebook in (first, second):
        notebook(_OPEN)
    pid = pid_of(data_dir)
    first.kill()
    assert second("result = client.status().data_dir") == str(data_dir)
    third = start_notebook()
    third(_OPEN)
    second("daemon.close()")
    assert third("result = client.status().data_dir") == str(data_dir)
    assert pid_of(data_dir) == pid and runs(pid)
    third.kill()
    wait_for_end(pid)


def test_the_process_that_started_it_may_give_it_up_first(data_dir, start_notebook):
    own = hearth.PrivateDaemon(data_dir)
    notebook = start_notebook()
    notebook(_OPEN)
    pid = pid_of(data_dir)
    own.close()
    assert notebook("result = client.status().data_dir") == str(data_dir)
    assert runs(pid)


def test_processes_that_start_at_once_share_one(start_notebook, data_dir):
    notebooks = [start_notebook() for _ in range(4)]
    for notebook in notebooks:
        notebook.begin(_OPEN)
    for notebook in notebooks:
        notebook.result()
    pids = {notebook("result = int(open(data_dir + '/hearth.lock').read())")
            for notebook in notebooks}
    assert len(pids) == 1
    assert log_of(data_dir).count(" ready: ") == 1


def test_the_next_one_finds_dataset_and_job_again(start_notebook, data_dir, graph_folder,
                                                  undisturbed):
    """A kill in the middle of a job; the next process comes while the daemon stops."""
    notebook = start_notebook()
    notebook(_OPEN)
    name = notebook(f"result = hearth.dataset_of(client, {str(graph_folder)!r})")
    job = notebook(f"""
job = client.train({_LONG!r}, dataset={name!r}, checkpoint_every=10)
next(event for event in job.watch() if type(event).__name__ == "EpochFinished")
result = job.id
""")
    before = pid_of(data_dir)
    notebook.kill()
    wait_for(lambda: "stopping: standard input has ended" in log_of(data_dir), "the stop to begin",
             poll_seconds=0.001)
    with hearth.PrivateDaemon(data_dir) as daemon, daemon.client() as client:
        assert pid_of(data_dir) != before and not runs(before)
        assert hearth.dataset_of(client, graph_folder) == name
        assert len(client.jobs(kind="import")) == 1
        report = client.result(job)
    assert report.resumes > 0
    assert report.loss_digest == undisturbed["loss_digest"]


def test_kills_leave_nothing_that_hinders_the_next(data_dir, start_notebook):
    for _ in range(3):
        notebook = start_notebook()
        notebook(_OPEN)
        pid = pid_of(data_dir)
        os.kill(pid, signal.SIGKILL)
        notebook.kill()
        wait_for_end(pid)
    with hearth.PrivateDaemon(data_dir) as daemon, daemon.client() as client:
        assert client.status().data_dir == str(data_dir)


def test_a_daemon_that_was_killed_is_replaced_at_the_next_opening(data_dir):
    first = hearth.PrivateDaemon(data_dir)
    pid = pid_of(data_dir)
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)
    with hearth.PrivateDaemon(data_dir) as second, second.client() as client:
        assert client.status().data_dir == str(data_dir)
        first.close()
        assert client.status().data_dir == str(data_dir)
        again = pid_of(data_dir)
    assert not runs(again)


def test_a_daemon_that_was_started_otherwise_is_left_alone(start_daemon):
    other = start_daemon()
    with pytest.raises(hearth.HearthError, match="in use by a hearthd that was started") as refused:
        hearth.PrivateDaemon(other.data_dir)
    assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert f"unix:{other.data_dir}/hearth.sock" in refused.value.message
    assert other.is_alive()
    other.stop()
    hearth.PrivateDaemon(other.data_dir).close()


def test_errors_have_the_end_of_the_log(data_dir):
    with pytest.raises(hearth.HearthError) as failed:
        hearth.PrivateDaemon(data_dir, memory_limit="much")
    assert failed.value.code is grpc.StatusCode.INTERNAL
    assert "hearthd ended with 2" in failed.value.message
    assert f"{data_dir}/hearthd.log" in failed.value.message
    assert "--memory-limit" in failed.value.message
    hearth.PrivateDaemon(data_dir).close()


def test_a_program_that_never_serves_is_given_up(data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("HEARTHD", str(tmp_path / "hearthd"))
    with pytest.raises(hearth.HearthError, match="HEARTHD names .*, which is no program") as missing:
        hearth.PrivateDaemon(data_dir)
    assert missing.value.code is grpc.StatusCode.NOT_FOUND
    (tmp_path / "hearthd").write_text("#!/bin/sh\necho no such luck: $$\nexec sleep 1000\n")
    (tmp_path / "hearthd").chmod(0o700)
    with pytest.raises(hearth.Unavailable, match="no such luck") as given_up:
        hearth.PrivateDaemon(data_dir, timeout=0.5)
    assert not runs(int(given_up.value.message.rpartition(": ")[2]))


def test_a_folder_has_one_dataset_until_it_changes(data_dir, tmp_path, graph):
    folder = graph.write(tmp_path / "my graph")
    with hearth.PrivateDaemon(data_dir) as daemon, daemon.client() as client:
        name = hearth.dataset_of(client, folder)
        assert name.startswith("my-graph-")
        dataset = client.dataset(name)
        assert dataset.num_nodes == len(graph.node_label)
        assert dataset.node_types[0].feature_path == str(folder / "node_feat.npy")
        os.chdir(tmp_path)
        assert hearth.dataset_of(client, "my graph/.") == name
        both_ways = hearth.dataset_of(client, folder, undirected=True)
        assert client.dataset(both_ways).num_edges > dataset.num_edges
        np.save(folder / "node_label.npy", graph.node_label[::-1])
        os.utime(folder / "node_label.npy", ns=(1, 1))
        changed = hearth.dataset_of(client, folder)
        assert len({name, both_ways, changed}) == 3
        assert len(client.jobs(kind="import")) == 3


def test_features_that_cannot_stay_are_copied(data_dir, tmp_path, graph):
    folder = graph._replace(node_feat=graph.node_feat.astype(np.float64)).write(tmp_path / "graph")
    with hearth.PrivateDaemon(data_dir) as daemon, daemon.client() as client:
        dataset = client.dataset(hearth.dataset_of(client, folder))
        assert dataset.node_types[0].feature_path == ""
        assert dataset.node_types[0].feature_dtype == "float32"
        with pytest.raises(hearth.HearthError, match="node_feat.npy"):
            hearth.dataset_of(client, folder, in_place=True)
        (folder / "edge_index.npy").unlink()
        with pytest.raises(hearth.JobFailed, match="edge_index|recognize"):
            hearth.dataset_of(client, folder)


def test_processes_that_want_a_dataset_at_once_import_it_once(start_notebook, other_folder):
    notebooks = [start_notebook() for _ in range(3)]
    for notebook in notebooks:
        notebook(_OPEN)
    for notebook in notebooks:
        notebook.begin(f"result = hearth.dataset_of(client, {str(other_folder)!r})")
    assert {notebook.result() for notebook in notebooks} == {dataset_name(other_folder, {})}
    states = notebooks[0]("result = [job.state.value for job in client.jobs(kind='import')]")
    assert states == ["SUCCEEDED"]


def test_an_import_goes_on_after_a_kill(start_notebook, data_dir, other_folder):
    notebook = start_notebook()
    notebook(_OPEN)
    notebook.begin(f"hearth.dataset_of(client, {str(other_folder)!r})")
    wait_for(lambda: list(data_dir.glob("datasets/*")), "the import to begin", poll_seconds=0.001)
    notebook.kill()
    with hearth.PrivateDaemon(data_dir) as daemon, daemon.client() as client:
        name = hearth.dataset_of(client, other_folder)
        assert client.dataset(name).num_nodes == 50_000
        assert len(client.jobs(kind="import")) == 1
