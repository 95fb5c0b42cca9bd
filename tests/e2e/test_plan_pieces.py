"""Plans of diskgnn in pieces: hearth-piece in many processes, kill -9, and the plan that the daemon
joins. (With Ray: test_ray_preparation.py.)"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from daemon import HEARTH, HEARTH_PIECE, run, wait_for
from jobs import LONG, QUICK, prepare
from stored import digests, plan_digests


@pytest.fixture
def piece():
    """Runs `hearth piece`, which finds hearth-piece in PATH."""
    path = os.pathsep.join([str(Path(HEARTH_PIECE).parent), os.environ["PATH"]])

    def call(*arguments: object, code: int = 0):
        done = run([HEARTH, "piece", *map(str, arguments)], env={**os.environ, "PATH": path})
        assert done.code == code, done.err
        return done
    return call


def step(daemon, command, folder: Path, count: int = 4) -> dict:
    """A prepare job that goes on with the pieces in `folder`: its report of the plan."""
    job = daemon.json(*command, "--pieces", str(folder), "--num-pieces", str(count))
    return job["report"]["preparation"]


def make_all(piece, plan: str, count: int, *flags: object) -> None:
    """Makes all pieces, in any order, several at a time, and some twice at the same time."""
    indices = [*range(count), *range(0, count, 3)]
    random.Random(1).shuffle(indices)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda index: piece("--of", plan, "--index", index, *flags), indices))
    assert piece("check", "--of", plan, "--contents").out == ""


def whole_plan(daemon, command) -> dict[str, str]:
    """Digests of the plan that the daemon makes by itself, which is deleted then."""
    name = daemon.json(*command)["report"]["preparation"]["plan"]
    found = plan_digests(daemon.data_dir, name)
    daemon.hearth("plan", "delete", name)
    return found


OPTIONS = (
    (),
    ("--disk-cache", "0"),
    ("--disk-limit", "20x"),
    ("--trainers", "2"),
    ("--sampler", "subgraph"),
    ("--sampler", "ladies", "--layer-nodes", "100,150"),
    ("--order", "partition", "--parts", "20"),
    ("--model", "none"),
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_the_plan_is_that_of_the_daemon(daemon, piece, tmp_path, options):
    # Layer-wise sampling has no fan-outs.
    job = tuple(word for word in QUICK if "ladies" not in options or word not in
                ("--fanouts", "5,5"))
    command = prepare(job, *options)
    expected = whole_plan(daemon, command)
    folder = tmp_path / "pieces"
    for name in ("samples.json", "packs.json"):
        to_make = step(daemon, command, folder)["to_make"]
        assert to_make["plan"] == str(folder / name)
        assert 1 <= to_make["pieces"] <= 4 and to_make["missing"] == to_make["pieces"]
        make_all(piece, to_make["plan"], to_make["pieces"])
    made = step(daemon, command, folder)
    assert made["to_make"] is None and "joining" in str(made["phases"])
    assert plan_digests(daemon.data_dir, made["plan"]) == expected
    again = step(daemon, command, folder)
    assert again["reused"]
    daemon.hearth("plan", "delete", made["plan"])


def test_training_finds_the_plan(daemon, piece, tmp_path):
    expected = daemon.json(*QUICK, "--strategy", "memory")["report"]["loss_digest"]
    command = prepare(QUICK, "--cpu-cache", "24KiB")
    for _ in range(2):
        to_make = step(daemon, command, tmp_path / "pieces", 7)["to_make"]
        make_all(piece, to_make["plan"], to_make["pieces"], "--memory", "64MiB", "--threads", "2")
    assert step(daemon, command, tmp_path / "pieces")["to_make"] is None
    job = daemon.json("train", *command[1:])
    assert job["report"]["loss_digest"] == expected
    log = daemon.hearth("job", "logs", job["id"]).out
    assert "reused" in log and "sampled in" not in log


def test_what_is_wrong_is_told_with_its_remedy(daemon, piece, tmp_path):
    command = prepare(QUICK, "--cpu-cache", "25KiB")
    folder = tmp_path / "pieces"
    told = daemon.hearth(*command, "--pieces", str(folder), "--num-pieces", "3").out
    samples, packs = folder / "samples.json", folder / "packs.json"
    assert f"3 of 3 pieces are to be made before the plan is: hearth piece --of {samples}" in told
    assert len(piece("check", "--of", samples).out.splitlines()) == 3
    make_all(piece, str(samples), 3)
    step(daemon, command, folder, 3)
    piece("--of", packs, "--index", 0)
    piece("--of", packs, "--index", 2)
    to_make = step(daemon, command, folder, 3)["to_make"]
    assert to_make["missing"] == 1
    assert to_make["fault"].endswith(f"is missing; make the piece: hearth piece --of {packs} "
                                     "--index 1")
    piece("--of", packs, "--index", 1)
    # A flipped bit shows when the pieces are joined.
    damaged = folder / "packs-000001" / "packs"
    bytes_of = damaged.read_bytes()
    damaged.write_bytes(bytes_of[:5000] + bytes([bytes_of[5000] ^ 1]) + bytes_of[5001:])
    assert piece("check", "--of", packs).out == ""
    to_make = step(daemon, command, folder, 3)["to_make"]
    assert to_make["missing"] == 1 and to_make["fault"].endswith("--index 1")
    assert piece("check", "--of", packs, "--contents").out.startswith("1: ")
    piece("--of", packs, "--index", 1)
    assert damaged.read_bytes() == bytes_of
    assert step(daemon, command, folder, 3)["to_make"] is None


def test_what_belongs_to_something_else_is_refused(daemon, graph_folder, piece, tmp_path):
    command = prepare(QUICK, "--cpu-cache", "26KiB")
    folder = tmp_path / "pieces"
    step(daemon, command, folder)
    other = prepare(QUICK, "--cpu-cache", "27KiB")
    refused = daemon.json(*other, "--pieces", str(folder), code=1)["error"]["message"]
    assert "has pieces of plan diskgnn-" in refused and "another folder" in refused
    # Another dataset, for the daemon and for a piece; both fingerprints are told.
    daemon.import_graph("another", graph_folder, "--undirected")
    shown = [daemon.json("dataset", "show", name)["fingerprint"] for name in
             ("planted", "another")]
    on_other = tuple("another" if word == "planted" else word for word in command)
    refused = daemon.json(*on_other, "--pieces", str(folder), code=1)["error"]["message"]
    assert all(fingerprint in refused for fingerprint in shown)
    refused = piece("--of", folder / "samples.json", "--index", 0, "--dataset",
                    daemon.data_dir / "datasets/another", code=1).err
    assert all(fingerprint in refused for fingerprint in shown)
    # A copy elsewhere is as good as the daemon's own.
    copy = tmp_path / "copy"
    shutil.copytree(daemon.data_dir / "datasets/planted", copy)
    for dataset in (copy, daemon.data_dir / "datasets/planted"):
        piece("--of", folder / "samples.json", "--index", 0, "--dataset", dataset)
    assert "the limit is 1.0 MiB" in piece("--of", folder / "samples.json", "--index", 0,
                                           "--memory", "1MiB", code=1).err
    assert "pieces 0 .. 3" in piece("--of", folder / "samples.json", "--index", 4, code=2).err


def test_pieces_are_for_diskgnn_alone(daemon, tmp_path):
    for options, told in ((("--strategy", "gids"), "diskgnn"), (("--history", "on"), "history"),
                          (("--row-dtype", "bf16"), "row-dtype")):
        refused = daemon.hearth(*prepare(QUICK, *options), "--pieces", str(tmp_path), code=2).err
        assert told in refused


@pytest.fixture
def long_pieces(daemon, piece, tmp_path):
    """Plans of both rounds, of one piece each, which take a while; both pieces are made."""
    command = prepare(LONG, "--cpu-cache", "0", "--epochs", "12")
    folder = tmp_path / "pieces"
    plans = []
    for _ in range(2):
        plans.append(step(daemon, command, folder, 1)["to_make"]["plan"])
        piece("--of", plans[-1], "--index", 0)
    return folder, plans


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_ended_leaves_no_piece(long_pieces, piece, how):
    folder, plans = long_pieces
    for plan, name in zip(plans, ("samples-000000", "packs-000000")):
        whole = digests(folder / name)
        shutil.rmtree(folder / name)
        process = subprocess.Popen([HEARTH_PIECE, "--of", plan, "--index", "0"],
                                   stderr=subprocess.DEVNULL)
        wait_for(lambda: any(path.stat().st_size for path in folder.glob(f"{name}.*.tmp/*")),
                 "a part of a piece")
        process.send_signal(how)
        code = process.wait()
        left = list(folder.glob("*.tmp"))
        if how == signal.SIGTERM:
            assert code == 130 and not left
        else:
            assert code == -signal.SIGKILL and len(left) == 1
            shutil.rmtree(left[0])
        assert not (folder / name).exists()
        assert "is missing" in piece("check", "--of", plan).out
        piece("--of", plan, "--index", 0)
        assert digests(folder / name) == whole
