"""A disk without any space left, while a job trains and when the daemon starts."""

from __future__ import annotations

import contextlib
import errno

import pytest

from daemon import Daemon, wait_for
from jobs import LONG, LONG_BATCHES_PER_EPOCH
from memory_disk import mounted

DISK_BYTES = 96 << 20
# So wide that its checkpoints do not fit what the daemon keeps in reserve.
KEPT = (*LONG, "--hidden", "256", "--epochs", "4", "--checkpoint-every", "5")


@pytest.fixture(scope="module")
def undisturbed(daemon):
    """The report of the job that nobody disturbed."""
    return daemon.json(*KEPT)["report"]


@pytest.fixture
def disk(tmp_path):
    """A small disk."""
    with mounted(tmp_path / "disk", DISK_BYTES) as folder:
        yield folder


@pytest.fixture
def small(disk, graph_folder):
    """A daemon on the small disk. Its log and its address are elsewhere."""
    data = disk / "data"
    with contextlib.closing(Daemon(data, elsewhere=disk.parent)) as daemon:
        daemon.import_graph("planted", graph_folder)
        yield daemon


def take_all(disk):
    """Takes all the space there is, to the last byte."""
    with open(disk / "filler", "ab", buffering=0) as filler:
        for size in (1 << 20, 4096, 1):
            with pytest.raises(OSError) as error:
                while True:
                    filler.write(bytes(size))
            assert error.value.errno == errno.ENOSPC


def fill(disk):
    """Likewise, where nobody gives space back meanwhile."""
    take_all(disk)
    with pytest.raises(OSError) as error:
        (disk / "one").write_bytes(b"x" * 4096)
    assert error.value.errno == errno.ENOSPC
    (disk / "one").unlink()


def free(disk):
    (disk / "filler").unlink()


def reserved(small):
    return sum(1 for piece in (small.data_dir / "reserve").iterdir() if piece.stat().st_size)


def assert_undisturbed(small, job, undisturbed):
    small.wait_for_state(job, "SUCCEEDED")
    report = small.json("job", "show", job)["report"]
    assert report["loss_digest"] == undisturbed["loss_digest"]
    assert [epoch["loss"] for epoch in report["epochs"]] == \
        [epoch["loss"] for epoch in undisturbed["epochs"]]
    assert report["resumes"] >= 1


def test_a_job_that_fills_the_disk_waits_and_goes_on(small, disk, undisturbed):
    pieces = reserved(small)
    assert pieces > 0
    job = small.json(*KEPT, "--detach")["id"]
    small.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 10)

    def is_waiting():
        # Each of its checkpoints gives the space of an earlier one back.
        take_all(disk)
        return small.state(job) == "WAITING"
    wait_for(is_waiting, "the job to wait for space")
    assert small.json("job", "show", job)["waiting_reason"].startswith("disk space: ")
    assert small.json("status")["memory_reserved_bytes"] == 0
    # The daemon goes on, and starts, with no space at all.
    small.kill()
    fill(disk)
    small.start()
    small.wait_for_state(job, "WAITING")
    assert small.hearth("status").code == 0
    free(disk)
    assert_undisturbed(small, job, undisturbed)


def test_a_daemon_that_is_killed_starts_on_a_full_disk(small, disk, undisturbed):
    job = small.json(*KEPT, "--detach")["id"]
    small.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 10)
    small.kill()
    fill(disk)
    small.start()
    # Its states are durable, whatever becomes of it.
    small.wait_for_state(job, "WAITING")
    for _ in range(3):
        small.kill()
        fill(disk)
        small.start()
        small.wait_for_state(job, "WAITING")
    assert reserved(small) < 8
    free(disk)
    small.stop()
    small.start()
    assert reserved(small) == 8
    assert_undisturbed(small, job, undisturbed)


def test_a_daemon_that_was_stopped_starts_on_a_full_disk(small, disk):
    # The files beside the database, which went with the last daemon, are made anew.
    for _ in range(3):
        small.stop()
        fill(disk)
        small.start()
        assert [dataset["name"] for dataset in small.json("dataset", "list")["datasets"]] == \
            ["planted"]
    assert 0 < reserved(small) < 8
