"""Every alert fires and clears: a real Prometheus, real daemons, real trouble."""

from __future__ import annotations

import contextlib
import re
import subprocess

import pytest

import seccomp
from daemon import Daemon
from graphs import planted_graph
from jobs import ENDLESS, QUICK
from memory_disk import mounted
from prometheus import RULES, Prometheus

pytestmark = pytest.mark.full("alerts")

READS = (*ENDLESS, "--strategy", "gnndrive", "--fanouts", "5,5", "--hidden", "16")
# A batch of this job takes many seconds, and an epoch eight batches, so that it gets on slowly
# and makes no checkpoint for long.
SLOW = (*ENDLESS, "--strategy", "memory", "--hidden", "4096", "--fanouts", "5,5,5,5,5,5",
        "--batch-size", "256", "--train-threads", "1")
DISK_BYTES = 6 << 30


@pytest.fixture
def disk(tmp_path):
    """A disk that is not nearly full, in memory: it takes only what is written."""
    # Lazily: the kernel may still end reads of a daemon that was killed.
    with mounted(tmp_path / "disk", DISK_BYTES, "--lazy") as folder:
        yield folder


@pytest.fixture
def watched(disk, graph_folder):
    """A daemon and the Prometheus that watches it."""
    with contextlib.closing(Daemon(disk / "data", elsewhere=disk.parent)) as daemon:
        daemon.import_graph("planted", graph_folder)
        with contextlib.closing(
                Prometheus(disk.parent / "prometheus", [daemon.metrics_address])) as prometheus:
            prometheus.wait_for_data("hearth_build_info")
            yield daemon, prometheus


def cancel_all(daemon):
    for job in daemon.json("job", "list")["jobs"]:
        if job["state"] in ("QUEUED", "WAITING", "PREPARING", "RUNNING"):
            daemon.hearth("job", "cancel", job["id"])
            daemon.wait_for_state(job["id"], "CANCELLED")


def down(daemon, prometheus):
    daemon.kill()
    prometheus.wait_until_firing("HearthDaemonDown")
    daemon.start()
    prometheus.wait_until_clear("HearthDaemonDown")


def failed(daemon, prometheus):
    source = daemon.data_dir.parent / "foreign"
    graph = planted_graph()
    graph.edge_index[0, 0] = 10**6
    graph.write(source)
    daemon.hearth("dataset", "import", "foreign", "--source", str(source), code=1)
    prometheus.wait_until_firing("HearthJobFailed")
    prometheus.wait_until_clear("HearthJobFailed")


def slow(daemon, prometheus):
    daemon.json(*SLOW, "--detach")
    daemon.json(*QUICK, "--detach")
    for alert in ("HearthJobStalled", "HearthQueueWait", "HearthCheckpointStale"):
        prometheus.wait_until_firing(alert)
    cancel_all(daemon)
    for alert in ("HearthJobStalled", "HearthQueueWait", "HearthCheckpointStale"):
        prometheus.wait_until_clear(alert)


def read_errors(daemon, prometheus):
    job = daemon.json(*READS, "--cpu-cache", "64KiB", "--detach")["id"]
    daemon.wait_for_batches(job, 1)
    largest = max((daemon.data_dir / "datasets/planted").rglob("*"),
                  key=lambda path: path.stat().st_size)
    kept = largest.read_bytes()
    with open(largest, "r+b") as file:
        file.truncate(4096)
    prometheus.wait_until_firing("HearthReadErrors")
    with open(largest, "r+b") as file:
        file.write(kept)
    cancel_all(daemon)
    prometheus.wait_until_clear("HearthReadErrors")


def hit_ratio(daemon, prometheus):
    source = daemon.data_dir.parent / "large"
    planted_graph(num_nodes=50_000, dim=128, degree=10).write(source)
    daemon.import_graph("large", source)
    job = daemon.json(*READS, "--dataset", "large", "--cpu-cache", "64KiB", "--detach")["id"]
    prometheus.wait_until_firing("HearthHitRatioLow")
    daemon.hearth("job", "cancel", job)
    prometheus.wait_until_clear("HearthHitRatioLow")


def full_disk(daemon, prometheus):
    filler = daemon.data_dir.parent / "filler"
    with open(filler, "wb") as file:
        for _ in range(1100):
            file.write(bytes(1 << 20))
    prometheus.wait_until_firing("HearthDiskNearlyFull")
    filler.unlink()
    prometheus.wait_until_clear("HearthDiskNearlyFull")


@pytest.mark.parametrize("trouble", [down, failed, slow, read_errors, hit_ratio, full_disk])
def test_alert(watched, trouble):
    trouble(*watched)


def test_no_io_uring(watched, monkeypatch):
    daemon, prometheus = watched
    started = subprocess.Popen
    daemon.stop()
    confine = seccomp.under_profile(without=seccomp.IO_URING)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", lambda *arguments, **options: started(
            *arguments, preexec_fn=confine, **options))
        daemon.start()
    assert daemon.json("status")["read_queues"] == "threads"
    prometheus.wait_until_firing("HearthNoIoUring")
    daemon.stop()
    daemon.start()
    prometheus.wait_until_clear("HearthNoIoUring")


def test_memory_near_the_limit(disk, tmp_path):
    with contextlib.closing(Daemon(disk / "data", "--memory-limit", "8MiB",
                                   elsewhere=tmp_path)) as small, \
            contextlib.closing(Prometheus(tmp_path / "prometheus",
                                          [small.metrics_address])) as prometheus:
        prometheus.wait_until_firing("HearthMemoryNearLimit")
        address = small.metrics_address
        small.stop()
        with contextlib.closing(Daemon(disk / "data", elsewhere=tmp_path,
                                       metrics=address)) as large:
            assert large.metrics_address == address
            prometheus.wait_until_clear("HearthMemoryNearLimit")


def test_every_alert_is_made_to_fire_here():
    """Not more than the names: the tests above say that they fire and clear."""
    with open(__file__, encoding="utf-8") as source:
        named = set(re.findall(r'"(Hearth\w+)"', source.read()))
    assert named == set(re.findall(r"alert: (\w+)", (RULES / "alerts.yml").read_text()))
