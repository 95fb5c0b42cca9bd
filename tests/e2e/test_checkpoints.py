"""Checkpoints: any number of epochs, damaged ones, ones of another version."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import pytest

from daemon import TIRELESS, Daemon
from jobs import LONG, LONG_BATCHES_PER_EPOCH

# So many that their reports would not fit the header of a safetensors file.
MANY_EPOCHS = 5000
HEADER_BYTES = 4 << 20

NAMES = ("checkpoint.safetensors", "checkpoint-odd.safetensors")

KEPT = (*LONG, "--checkpoint-every", "5")


@pytest.fixture
def killed(start_daemon, graph_folder):
    """A daemon that was killed in the second epoch, its job, and the job's folder."""
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    job = daemon.json(*KEPT, "--detach")["id"]
    daemon.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 20)
    daemon.kill()
    return daemon, job, daemon.data_dir / "jobs" / job


def progress_in(path):
    """The progress of a job as its checkpoint tells it, without the tensors."""
    contents = path.read_bytes()
    header = json.loads(contents[8:8 + int.from_bytes(contents[:8], "little")])
    return json.loads(header["__metadata__"]["progress"])


def generation(path):
    """The number of the checkpoint in a file."""
    return progress_in(path)["generation"]


def flip_a_bit(path):
    contents = bytearray(path.read_bytes())
    contents[len(contents) * 2 // 3] ^= 0x10
    path.write_bytes(contents)


def finish(daemon, job):
    daemon.start()
    ended = daemon.json("job", "watch", job)
    assert ended["state"] == "SUCCEEDED"
    return ended["report"]


def assert_same(report, undisturbed):
    assert report["loss_digest"] == undisturbed["loss_digest"]
    assert report["test_metric"] == undisturbed["test_metric"]
    for epoch, expected in zip(report["epochs"], undisturbed["epochs"], strict=True):
        assert (epoch["epoch"], epoch["loss"]) == (expected["epoch"], expected["loss"])


@pytest.fixture
def quick_disk(graph_folder):
    """A daemon whose files are in memory: every epoch is synced three times."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, \
            contextlib.closing(Daemon(Path(folder) / "data")) as daemon:
        daemon.import_graph("planted", graph_folder)
        yield daemon


def test_many_epochs(quick_disk):
    daemon = quick_disk
    ended = daemon.json("train", "--dataset", "planted", "--model", "none", "--fanouts", "1",
                        "--batch-size", "4096", "--distinct-epochs", "1",
                        "--epochs", str(MANY_EPOCHS))
    epochs = ended["report"]["epochs"]
    assert [epoch["epoch"] for epoch in epochs] == list(range(1, MANY_EPOCHS + 1))
    folder = daemon.data_dir / "jobs" / ended["id"]
    for name in NAMES:
        assert (folder / name).stat().st_size < 16 << 10
        last = json.dumps(progress_in(folder / name)["last_epoch"], separators=(",", ":"))
        assert MANY_EPOCHS * len(last) > HEADER_BYTES


def test_a_damaged_checkpoint_is_not_used(killed, undisturbed):
    daemon, job, folder = killed
    newest = max((folder / name for name in NAMES), key=generation)
    flip_a_bit(newest)
    report = finish(daemon, job)
    assert_same(report, undisturbed)
    assert report["resumes"] == 1
    log = daemon.hearth("job", "logs", job).out
    assert f"{newest}: the checksum of its tensors does not match" in log


def test_without_a_whole_checkpoint_the_job_starts_anew(killed, undisturbed):
    daemon, job, folder = killed
    for name in NAMES:
        flip_a_bit(folder / name)
    report = finish(daemon, job)
    assert_same(report, undisturbed)
    assert report["resumes"] == 0
    assert "no checkpoint is whole" in daemon.hearth("job", "logs", job).out


def test_a_checkpoint_of_another_version_is_refused_at_the_start(killed):
    daemon, job, folder = killed
    for name in NAMES:
        progress = json.dumps({"version": 99})
        header = json.dumps({"__metadata__": {"progress": progress}}).encode()
        (folder / name).write_bytes(len(header).to_bytes(8, "little") + header)
    daemon.start()
    failed = daemon.json("job", "show", job)
    assert failed["state"] == "FAILED"
    assert "version 99" in failed["error"]["message"]
    assert daemon.batches_done(job) == 0
