"""A database of jobs that is lost or damaged, and backups."""

from __future__ import annotations

import json
import shutil
import sqlite3

import pytest

from jobs import ENDLESS, LONG, QUICK


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    return daemon


def remove_database(daemon):
    for suffix in ("", "-wal", "-shm"):
        daemon.data_dir.joinpath(f"hearth.db{suffix}").unlink(missing_ok=True)


def kept(job):
    """What survives the loss of the database: all but numbers of events."""
    return {key: value for key, value in job.items() if key != "last_sequence"}


@pytest.mark.parametrize("loss", ["moved away", "emptied", "garbage", "a damaged page"])
def test_jobs_survive_the_loss_of_the_database(fresh, tmp_path, loss):
    succeeded = fresh.json(*QUICK)
    running = fresh.json(*LONG, "--checkpoint-every", "5", "--detach")["id"]
    fresh.wait_for_batches(running, 20)
    fresh.kill()
    database = fresh.data_dir / "hearth.db"
    if loss == "moved away":
        remove_database(fresh)
    elif loss == "emptied":
        remove_database(fresh)
        database.touch()
    elif loss == "garbage":
        remove_database(fresh)
        database.write_bytes(b"this is no database\n" * 1000)
    else:
        with sqlite3.connect(database) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        with open(database, "r+b") as file:
            file.seek(4096)
            file.write(b"\x5a" * 8192)
    fresh.start()
    assert kept(fresh.json("job", "show", succeeded["id"])) == kept(succeeded)
    ended = fresh.json("job", "watch", running)
    assert ended["state"] == "SUCCEEDED"
    assert ended["report"]["resumes"] == 1
    status = fresh.json("status")
    assert any("listed again" in line for line in status["warnings"])
    assert "warning: " in fresh.hearth("status").out
    assert "listed again" in fresh.log
    if loss in ("garbage", "a damaged page"):
        assert list(fresh.data_dir.glob("hearth.db.damaged-*"))
    model = tmp_path / "model"
    fresh.hearth("export", succeeded["id"], "--to", str(model))
    assert (model / "model.safetensors").stat().st_size > 0
    # Numbers go on after the greatest.
    newest = fresh.json(*QUICK)["id"]
    assert int(newest.split("-")[1]) > int(running.split("-")[1])


def test_a_deleted_job_stays_deleted_and_its_number_unused(fresh):
    deleted = fresh.json(*QUICK)["id"]
    fresh.hearth("job", "delete", deleted)
    fresh.kill()
    remove_database(fresh)
    fresh.start()
    fresh.hearth("job", "show", deleted, code=1)
    assert fresh.json(*QUICK)["id"] == "train-3"


def test_folders_of_no_job_are_kept(fresh):
    fresh.stop()
    stray = fresh.data_dir / "jobs" / "train-77"
    stray.mkdir()
    (stray / "model.safetensors").write_bytes(b"weights")
    fresh.start()
    assert (fresh.data_dir / "lost+found/train-77/model.safetensors").read_bytes() == b"weights"
    assert "train-77" in fresh.json("status")["warnings"][0]


def test_one_damaged_row_does_not_stop_the_start(fresh):
    damaged, sound = fresh.json(*QUICK), fresh.json(*QUICK)
    lost = fresh.json(*QUICK)
    fresh.stop()
    shutil.rmtree(fresh.data_dir / "jobs" / lost["id"])
    with sqlite3.connect(fresh.data_dir / "hearth.db") as connection:
        for job in damaged, lost:
            connection.execute("UPDATE jobs SET spec = X'FF' WHERE number = ?",
                               (int(job["id"].split("-")[1]),))
    connection.close()
    fresh.start()
    assert fresh.json("job", "show", sound["id"]) == sound
    assert kept(fresh.json("job", "show", damaged["id"])) == kept(damaged)
    fresh.hearth("job", "show", lost["id"], code=1)
    assert any("damaged_rows" in line for line in fresh.json("status")["warnings"])
    assert "is set aside" in fresh.log


def test_a_backup_is_restored(fresh, start_daemon, tmp_path):
    trained = fresh.json(*QUICK)
    running = fresh.json(*ENDLESS, "--detach")["id"]
    fresh.wait_for_batches(running, 1)
    backup = tmp_path / "backup"
    report = fresh.json("admin", "backup", "--to", str(backup))
    assert (report["jobs"], report["models"]) == (3, 1)
    assert report["path"] == str(backup)
    assert fresh.state(running) == "RUNNING"
    fresh.hearth("job", "cancel", running)
    fresh.wait_for_state(running, "CANCELLED")
    fresh.stop()
    # As client/guide/backup.md has it.
    shutil.rmtree(fresh.data_dir / "jobs")
    shutil.copytree(backup / "jobs", fresh.data_dir / "jobs")
    remove_database(fresh)
    shutil.copy(backup / "hearth.db", fresh.data_dir / "hearth.db")
    fresh.start()
    assert fresh.json("job", "show", trained["id"]) == trained
    fresh.wait_for_batches(running, 1)
    fresh.hearth("job", "cancel", running)
    # And as a data directory of its own, without datasets.
    other = start_daemon()
    other.stop()
    shutil.rmtree(other.data_dir)
    shutil.copytree(backup, other.data_dir)
    other.start()
    assert other.json("job", "show", trained["id"])["report"] == trained["report"]
    model = tmp_path / "model"
    other.hearth("export", trained["id"], "--to", str(model))
    assert json.loads((model / "config.json").read_text())["model"] == "sage"
    assert other.wait_for_state(running, "FAILED", "CANCELLED") == "FAILED"


def test_backups_where_there_is_something_or_within_the_data_are_refused(fresh, tmp_path):
    assert "exists" in fresh.hearth("admin", "backup", "--to", str(tmp_path), code=1).err
    inside = str(fresh.data_dir / "backup")
    assert "own data directory" in fresh.hearth("admin", "backup", "--to", inside, code=2).err
    assert not (fresh.data_dir / "backup").exists()


def test_the_last_lines_of_a_log(fresh):
    job = fresh.json(*QUICK)["id"]
    everything = fresh.hearth("job", "logs", job).out.splitlines()
    for count in (1, 3, 1000):
        tail = fresh.hearth("job", "logs", job, "--tail", str(count)).out.splitlines()
        assert tail == everything[-count:]
    assert len(fresh.json("job", "logs", job, "--tail", "2")["lines"]) == 2
    fresh.hearth("job", "logs", job, "--tail", "0", code=2)
    fresh.hearth("job", "logs", job, "--tail", "1001", code=2)
