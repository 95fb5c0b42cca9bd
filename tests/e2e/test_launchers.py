"""`hearth run` on several machines, as launchers start it: each rank with a daemon of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from daemon import CATCH_INTERRUPTS, HEARTH, HEARTHD, PATIENCE_SECONDS, Daemon, run, wait_for
from jobs import LONG, QUICK
from machines import NoNamespaces, free_ports, namespaces

INTERRUPTED = 130
_LAUNCHERS_VARIABLES = ("HEARTH_", "SLURM_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "MASTER_",
                        "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def port_of_pair() -> str:
    """The first of two free ports, one after the other."""
    while True:
        (port,) = free_ports(1)
        with contextlib.suppress(OSError):
            with socket.socket() as second:
                second.bind(("127.0.0.1", port + 1))
                return str(port)


class Launch:
    """Ranks of one run on this machine. `variables`: what the launcher sets, by rank."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.data_dir = folder / "run"
        self.source = source
        self.port = port_of_pair()

    def command(self, *options: str) -> list[str]:
        return [HEARTH, "run", "--hearthd", HEARTHD, "--data-dir", str(self.data_dir),
                "--source", str(self.source), *options]

    def environment(self, **variables: object) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(_LAUNCHERS_VARIABLES)}
        return {**clean, "HEARTH_CLUSTER_PORT": self.port,
                **{name: str(value) for name, value in variables.items()}}

    def torchrun_variables(self, rank: int, size: int = 2) -> dict[str, object]:
        return {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "localhost", "LOCAL_RANK": rank,
                "LOCAL_WORLD_SIZE": size, "TORCHELASTIC_RUN_ID": "night"}

    def begin(self, variables: dict[str, object], *options: str,
              prefix: tuple[str, ...] = ()) -> subprocess.Popen:
        return subprocess.Popen(
            [*prefix, *CATCH_INTERRUPTS, *self.command(*options)], text=True,
            env=self.environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def jobs(self, rank: int) -> list[dict]:
        """Train jobs of a rank's daemon, once that is there; the newest first."""
        asked = run([HEARTH, "--server", f"unix:{self.data_dir}/rank-{rank}/hearth.sock", "job",
                     "list", "--output", "json"])
        return [job for job in (asked.json["jobs"] if asked.code == 0 else [])
                if job["id"].startswith("train-")]


def ends_of(ranks: list[subprocess.Popen]) -> list[tuple[int, str, str]]:
    """Exit codes and outputs."""
    ends = []
    for rank in ranks:
        out, err = rank.communicate(timeout=PATIENCE_SECONDS)
        ends.append((rank.returncode, out, err))
    return ends


@pytest.fixture
def launch(tmp_path: Path, graph_folder: Path) -> Launch:
    return Launch(tmp_path, graph_folder)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen]]:
    """What is put into it is killed in the end."""
    ranks: list[subprocess.Popen] = []
    yield ranks
    for rank in ranks:
        if rank.poll() is None:
            rank.kill()
        rank.communicate()


def digest_of(daemon: Daemon, job: tuple[str, ...], *options: str) -> str:
    return daemon.json(*job, *options)["report"]["loss_digest"]


def test_ranks_train_as_trainers_do(launch: Launch, daemon: Daemon, tmp_path: Path,
                                    started: list[subprocess.Popen]) -> None:
    options = (*QUICK[1:], "--to", str(tmp_path / "model"), "--output", "json")
    for rank in (1, 0):
        started.append(launch.begin(launch.torchrun_variables(rank), *options))
    (other, other_out, other_err), (first, first_out, first_err) = ends_of(started)
    assert (first, other) == (0, 0), first_err + other_err
    report = json.loads(first_out)["report"]
    assert report["loss_digest"] == digest_of(daemon, QUICK, "--trainers", "2")
    assert [machine["member"] for machine in report["machines"]] == ["node-0", "node-1"]
    assert (tmp_path / "model/model.safetensors").exists()
    assert other_out == ""
    # The same again finds its job.
    again = [launch.begin(launch.torchrun_variables(rank), *options) for rank in (0, 1)]
    started += again
    assert [end[0] for end in ends_of(again)] == [0, 0]


def test_torchrun(launch: Launch, daemon: Daemon, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    job_file = tmp_path / "job.yaml"
    names = iter(QUICK[1:])
    job_file.write_text("".join(f"{name[2:]}: {value}\n" for name, value in zip(names, names)))
    done = subprocess.run(
        # What the program torchrun is.
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", "2", *launch.command(),
         "-f", str(job_file), "--output", "json"], env=launch.environment(), text=True,
        capture_output=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["report"]["loss_digest"] ==
            digest_of(daemon, QUICK, "--trainers", "2"))


def slurm_variables(rank: int, size: int, leader: str) -> dict[str, object]:
    return {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": size, "SLURM_STEP_NUM_NODES": size,
            "SLURM_STEP_NODELIST": leader, "SLURM_LOCALID": 0, "SLURM_JOB_ID": 4711}


def test_srun_on_machines_of_their_own(tmp_path: Path, graph_folder: Path, daemon: Daemon,
                                       started: list[subprocess.Popen]) -> None:
    """With addresses that only tell each other, and a secret. Slurm itself is not here."""
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(os.urandom(32))
    try:
        made = namespaces(2)
        inside = made.__enter__()
    except NoNamespaces as missing:
        pytest.skip(str(missing))
    with contextlib.ExitStack() as stack:
        stack.push(made)
        for rank, name in enumerate(inside):
            one = Launch(tmp_path / name, graph_folder)
            one.port = "7610"
            started.append(one.begin(
                {**slurm_variables(rank, 2, "10.214.0.[1-2]"), "HEARTH_CLUSTER_SECRET_FILE": secret},
                *QUICK[1:], "--output", "json", prefix=("ip", "netns", "exec", name)))
        (first, out, first_err), (other, _, other_err) = ends_of(started)
    assert (first, other) == (0, 0), first_err + other_err
    assert (json.loads(out)["report"]["loss_digest"] ==
            digest_of(daemon, QUICK, "--trainers", "2"))


def test_several_machines_need_a_secret(launch: Launch) -> None:
    done = run(launch.command(*QUICK[1:]),
               env=launch.environment(**slurm_variables(0, 2, "localhost")))
    assert done.code == 1
    assert "HEARTH_CLUSTER_SECRET_FILE" in done.err


def test_another_secret_opens_nothing(launch: Launch, tmp_path: Path,
                                      started: list[subprocess.Popen]) -> None:
    """Who has it is told why, and the others are not disturbed."""
    for name in ("ours", "theirs"):
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_bytes(os.urandom(32))
    for rank, secret in ((0, "ours"), (1, "theirs")):
        started.append(launch.begin({**launch.torchrun_variables(rank),
                                     "HEARTH_CLUSTER_SECRET_FILE": tmp_path / secret}, *QUICK[1:]))
    first, other = started
    _, err = other.communicate(timeout=PATIENCE_SECONDS)
    assert other.returncode == 1
    assert "certificate" in err and "HEARTH_CLUSTER_SECRET_FILE" in err
    assert first.poll() is None
    assert launch.jobs(0) == []


def test_a_rank_that_fails_ends_the_run(launch: Launch, tmp_path: Path,
                                        started: list[subprocess.Popen]) -> None:
    started.append(launch.begin(launch.torchrun_variables(0), *QUICK[1:]))
    launch.source = tmp_path / "no-such-graph"
    started.append(launch.begin(launch.torchrun_variables(1), *QUICK[1:]))
    (first, _, first_err), (other, _, other_err) = ends_of(started)
    assert (first, other) == (1, 1)
    assert "node-1 has ended with 1" in first_err
    assert "no-such-graph" in other_err


def test_ranks_that_count_otherwise_are_told(launch: Launch,
                                             started: list[subprocess.Popen]) -> None:
    for rank, size in ((0, 2), (1, 3)):
        started.append(launch.begin(launch.torchrun_variables(rank, size), *QUICK[1:]))
    for code, _, err in ends_of(started):
        assert code == 2
        assert "node-1 counts 3 members, node-0 counts 2" in err


def test_two_processes_of_one_rank_end_the_run(launch: Launch, tmp_path: Path,
                                               started: list[subprocess.Popen]) -> None:
    """All three hear of it, though each tells nobody but the first rank's daemon."""
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(os.urandom(32))
    folder = launch.data_dir
    for rank, local_rank in ((0, 0), (1, 1), (1, 2)):
        launch.data_dir = folder / str(local_rank)
        started.append(launch.begin(
            {**launch.torchrun_variables(rank), "LOCAL_RANK": local_rank,
             "HEARTH_CLUSTER_SECRET_FILE": secret}, *LONG[1:], "--epochs", "1000"))
    for code, _, err in ends_of(started):
        assert code == 1
        assert "two processes are node-1" in err


def test_a_job_for_another_number_of_machines_is_refused(launch: Launch) -> None:
    done = run(launch.command(*QUICK[1:], "--machines", "3"),
               env=launch.environment(**launch.torchrun_variables(0)))
    assert done.code != 0
    assert "machines: 3 were asked for, but torchrun has started 2" in done.err


def test_a_rank_that_is_killed_comes_back(launch: Launch, daemon: Daemon,
                                          started: list[subprocess.Popen]) -> None:
    """As a pod does that is made anew: the others wait, and all go on from the checkpoint."""
    options = (*LONG[1:], "--checkpoint-every", "10", "--output", "json")
    first, other = (launch.begin(launch.torchrun_variables(rank), *options) for rank in (0, 1))
    started += [first, other]

    wait_for(lambda: any((job["report"] or {}).get("epochs") for job in launch.jobs(0)),
             "the first epoch")
    other.kill()
    wait_for(lambda: launch.jobs(0)[0]["state"] == "WAITING", "the job to wait")
    started.append(launch.begin(launch.torchrun_variables(1), *options))
    (code, out, err), _, (other_code, _, other_err) = ends_of(started)
    assert (code, other_code) == (0, 0), err + other_err
    assert (json.loads(out)["report"]["loss_digest"] ==
            digest_of(daemon, LONG, "--trainers", "2"))


def test_an_interrupted_run_goes_on(launch: Launch, daemon: Daemon,
                                    started: list[subprocess.Popen]) -> None:
    options = (*LONG[1:], "--output", "json")
    ranks = [launch.begin(launch.torchrun_variables(rank), *options) for rank in (0, 1)]
    started += ranks
    wait_for(lambda: any(machine["member"] == "node-1" and int(machine["done"]) > 0
                         for job in launch.jobs(0) for machine in job["machines"]),
             "batches of rank 1")
    for rank in ranks:
        rank.send_signal(signal.SIGTERM)
    assert [end[0] for end in ends_of(ranks)] == [INTERRUPTED, INTERRUPTED]
    again = [launch.begin(launch.torchrun_variables(rank), *options) for rank in (0, 1)]
    started += again
    (code, out, err), (other_code, _, other_err) = ends_of(again)
    assert (code, other_code) == (0, 0), err + other_err
    assert (json.loads(out)["report"]["loss_digest"] ==
            digest_of(daemon, LONG, "--trainers", "2"))
