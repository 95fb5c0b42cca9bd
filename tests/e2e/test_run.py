"""`hearth run`: daemon and job in one tree of processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from daemon import (CATCH_INTERRUPTS, HEARTH, HEARTHD, PATIENCE_SECONDS, Daemon, run,
                    wait_for)
from jobs import LONG, QUICK

INTERRUPTED = 130


class Run:
    """The command on a data directory of its own."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.data_dir = folder / "run"
        self.source = source

    def command(self, *options: str) -> list[str]:
        return [HEARTH, "run", "--hearthd", HEARTHD, "--data-dir", str(self.data_dir),
                "--source", str(self.source), *options]

    def __call__(self, *options: str):
        return run(self.command(*options))

    def begin(self, *options: str) -> subprocess.Popen:
        return subprocess.Popen(
            [*CATCH_INTERRUPTS, *self.command(*options)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ask(self, *arguments: str):
        return run([HEARTH, "--server", f"unix:{self.data_dir}/hearth.sock", *arguments])

    def wait_for_epoch(self, begun: subprocess.Popen) -> None:
        """Until an epoch of the job is done."""
        def epochs():
            code = begun.poll()
            assert code is None, f"ended with {code}: {begun.communicate()}\n{self.log}"
            shown = self.ask("job", "list", "--output", "json", "--state", "running")
            return shown.code == 0 and any(
                job["report"] and job["report"].get("epochs") for job in shown.json["jobs"])
        wait_for(epochs, "the first epoch")

    @property
    def daemon(self) -> int:
        return int((self.data_dir / "hearth.lock").read_text())

    @property
    def log(self) -> str:
        return (self.data_dir / "hearthd.log").read_text()


def runs(pid: int) -> bool:
    """Whether a process that is not this one's child does, or is not yet reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def private(tmp_path, graph_folder):
    return Run(tmp_path, graph_folder)


def test_a_run_trains_exports_and_leaves_nobody(private, daemon, tmp_path):
    done = private(*QUICK[1:], "--to", str(tmp_path / "model"), "--output", "json")
    assert done.code == 0, done
    assert done.json["report"]["loss_digest"] == daemon.json(*QUICK)["report"]["loss_digest"]
    assert (tmp_path / "model/model.safetensors").exists()
    assert not runs(private.daemon)
    assert not list(private.data_dir.glob("hearth.sock"))
    assert private.data_dir.stat().st_mode & 0o777 == 0o700
    # The same command finds the job again.
    again = private(*QUICK[1:], "--to", str(tmp_path / "model"), "--output", "json")
    assert again.code == 0 and again.json == done.json
    other = private(*QUICK[1:], "--seed", "2", "--output", "json")
    assert other.json["id"] != done.json["id"]


def test_a_yaml_file_names_everything(private, graph_folder, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(f"dataset: planted\nsource: {graph_folder}\nmodel: sage\nfanouts: [5, 5]\n"
                   "hidden: 16\nepochs: 1\n")
    done = run([HEARTH, "run", "--hearthd", HEARTHD, "-f", str(job)],
               env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.code == 0, done
    assert "test accuracy" in done.out
    assert (tmp_path / f"hearth-{os.geteuid()}/datasets/planted").is_dir()


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_at_a_checkpoint_from_which_it_goes_on(private, undisturbed, by):
    begun = private.begin(*LONG[1:], "--checkpoint-every", "10")
    private.wait_for_epoch(begun)
    pid = private.daemon
    begun.send_signal(by)
    _, err = begun.communicate(timeout=120)
    assert begun.returncode == INTERRUPTED, err
    assert "goes on from the last checkpoint" in err
    assert not runs(pid)
    assert private.log.rstrip().endswith("stopped")
    done = private(*LONG[1:], "--checkpoint-every", "10", "--output", "json")
    assert done.code == 0, done
    assert done.json["report"]["resumes"] > 0
    assert done.json["report"]["loss_digest"] == undisturbed["loss_digest"]


def test_the_daemon_does_not_outlive_it(private):
    begun = private.begin(*LONG[1:], "--epochs", "100000")
    private.wait_for_epoch(begun)
    pid = private.daemon
    assert runs(pid)
    begun.kill()
    begun.communicate()
    wait_for(lambda: not runs(pid), "hearthd to be gone")


def test_a_daemon_that_dies_is_told_of(private):
    begun = private.begin(*LONG[1:], "--epochs", "100000")
    private.wait_for_epoch(begun)
    os.kill(private.daemon, signal.SIGKILL)
    _, err = begun.communicate(timeout=120)
    assert begun.returncode == 1
    assert "killed by signal 9" in err and "hearthd.log" in err


def test_a_daemon_that_never_answers_and_ends_badly_is_told_of(private, tmp_path):
    hearthd = tmp_path / "hearthd"
    hearthd.write_text(
        "#!/usr/bin/env python3\n"
        "import os, signal, socket, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "notify.connect('\\0' + os.environ['NOTIFY_SOCKET'][1:])\n"
        "notify.send(b'READY=1')\n"
        "signal.sigwait({signal.SIGTERM})\n"
        "sys.exit('hearthd: no such luck')\n")
    hearthd.chmod(0o700)
    done = private(*QUICK[1:], "--hearthd", str(hearthd))
    assert done.code == 1, done
    assert "hearthd ended with 1" in done.err and "no such luck" in done.err


def test_a_job_that_fails_is_tried_again_by_the_same_command(private, tmp_path):
    """It fails as it would with `train`, and its daemon ends all the same."""
    failed = private(*QUICK[1:], "--lr", "1e30")
    assert failed.code == 1 and "failed" in failed.err
    assert not runs(private.daemon)
    again = private(*QUICK[1:], "--lr", "1e30", "--output", "json")
    assert again.code == 1 and again.json["state"] == "FAILED"
    assert len([line for line in private.log.splitlines() if "FAILED" in line]) == 2


def test_what_makes_no_sense_is_refused(private, tmp_path):
    assert private("--dataset", "planted", "--epochs", "x").code == 2
    assert private(*QUICK[1:], "--hidden", "0").code == 2
    unknown = tmp_path / "job.yaml"
    unknown.write_text("dataset: planted\nsauce: x\n")
    refused = private("-f", str(unknown))
    assert refused.code == 2 and "sauce" in refused.err
    missing = private(*QUICK[1:], "--hearthd", str(tmp_path / "none"))
    assert missing.code == 1 and str(tmp_path / "none") in missing.err
    config = tmp_path / "hearthd.yaml"
    config.write_text("memory-limit: much\n")
    bad = private(*QUICK[1:], "--hearthd-config", str(config))
    assert bad.code == 1 and "memory-limit" in bad.err


def test_without_a_dataset_or_a_source_the_name_is_told(private):
    refused = run([HEARTH, "run", "--hearthd", HEARTHD, "--data-dir", str(private.data_dir),
                   *QUICK[1:]])
    assert refused.code == 1 and "planted" in refused.err
    private.source = Path("/nowhere")
    failed = private(*QUICK[1:])
    assert failed.code == 1 and "/nowhere" in failed.err


def test_a_destination_that_cannot_be_is_found_before_training(private, tmp_path):
    (tmp_path / "model").mkdir()
    taken = private(*QUICK[1:], "--to", str(tmp_path / "model"))
    assert taken.code == 1 and f"--to: {tmp_path}/model exists already" in taken.err
    nowhere = private(*QUICK[1:], "--to", str(tmp_path / "none/model"))
    assert nowhere.code == 1 and f"--to: {tmp_path}/none is no folder" in nowhere.err
    assert not list((private.data_dir / "jobs").iterdir())


def test_a_model_that_was_removed_is_exported_again(private, tmp_path):
    model = tmp_path / "model"
    for _ in range(2):
        done = private(*QUICK[1:], "--to", str(model))
        assert done.code == 0, done
        assert (model / "model.safetensors").exists()
        shutil.rmtree(model)


def test_a_dataset_that_was_removed_is_imported_again(private):
    assert private(*QUICK[1:]).code == 0
    daemon = Daemon(private.data_dir)
    try:
        daemon.hearth("dataset", "delete", "planted")
    finally:
        daemon.close()
    again = private(*QUICK[1:], "--epochs", "1")
    assert again.code == 0, again


def test_a_signal_to_all_processes_ends_at_a_checkpoint(private):
    begun = private.begin(*LONG[1:])
    private.wait_for_epoch(begun)
    pid = private.daemon
    os.kill(pid, signal.SIGTERM)
    begun.send_signal(signal.SIGTERM)
    _, err = begun.communicate(timeout=PATIENCE_SECONDS)
    assert begun.returncode == INTERRUPTED, err
    assert not runs(pid)
    assert private.log.rstrip().endswith("stopped")
