"""Imports of edge lists in pieces: hearth-piece in many processes, kill -9, and what the daemon
makes of the pieces. (With Ray: test_ray_preprocessing.py.)"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from daemon import HEARTH, HEARTH_PIECE, run, wait_for
from stored import digests


def write_edges(path: Path, num_edges: int, seed: int = 1) -> Path:
    """An edge list with comments and, in its first line, a header."""
    edges = np.random.default_rng(seed).integers(0, 500, (num_edges, 2))
    lines = [f"{source} {destination}\n" for source, destination in edges]
    lines[::1000] = [f"# comment\n{line}" for line in lines[::1000]]
    path.write_text("source target\n" + "".join(lines))
    return path


def contents(daemon, name: str, source: Path, *flags: str):
    """Imports `source`; digests of the dataset's files, and the manifest without its time. The
    dataset is deleted: its name is part of its checksums, and so is that of the next one."""
    daemon.json("dataset", "import", name, "--source", str(source), *flags)
    folder = daemon.data_dir / "datasets" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    for field in ("created_unix_seconds", "crc32c"):
        del manifest[field]
    found = digests(folder, "manifest.json")
    assert daemon.hearth("dataset", "verify", name).code == 0
    daemon.hearth("dataset", "delete", name)
    return found, manifest


@pytest.fixture
def piece():
    """Runs `hearth piece`, which finds hearth-piece in PATH."""
    path = os.pathsep.join([str(Path(HEARTH_PIECE).parent), os.environ["PATH"]])

    def call(*arguments: object, code: int = 0):
        done = run([HEARTH, "piece", *map(str, arguments)], env={**os.environ, "PATH": path})
        assert done.code == code, done.err
        return done
    return call


def planned(piece, folder: Path, text: Path, *flags: object) -> tuple[Path, int]:
    told = piece("plan", folder, text, *flags).out
    return folder / "pieces.json", int(told.split()[0])


FLAGS = ((), ("--undirected", "--dedup", "--self-loops", "add"), ("--format", "edge-list"))


def test_the_dataset_is_that_of_the_text(daemon, piece, tmp_path):
    text = write_edges(tmp_path / "edges.txt", 20_000)
    plan, count = planned(piece, tmp_path / "pieces", text, "--piece-size", "10KiB")
    assert count > 10
    # In any order, several at a time, and some twice at the same time.
    indices = [*range(count), *range(0, count, 3)]
    random.Random(1).shuffle(indices)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda index: piece("--of", plan, "--index", index), indices))
    assert piece("check", "--of", plan, "--contents").out == ""
    for flags in FLAGS:
        assert contents(daemon, "pieces", plan.parent, *flags) == \
            contents(daemon, "pieces", text, *flags)
    # What was read is told like that of the text.
    _, manifest = contents(daemon, "pieces", plan.parent)
    assert manifest["transforms"][:2] == ["taken for edge-list: it is text with two ids a line",
                                          "line 1 skipped as a header: source, target "
                                          "(--header no reads it as an edge)"]


def test_ids_that_are_any_numbers(daemon, piece, tmp_path):
    text = tmp_path / "sparse.csv"
    ids = np.random.default_rng(2).integers(-2**62, 2**62, 300)
    edges = np.random.default_rng(3).choice(ids, (4_000, 2))
    text.write_text("".join(f"{source},{destination}\n" for source, destination in edges))
    plan, count = planned(piece, tmp_path / "pieces", text, "--piece-size", "20KiB", "--relabel")
    assert count > 5
    for index in range(count):
        piece("--of", plan, "--index", index)
    assert contents(daemon, "sparse", plan.parent) == contents(daemon, "sparse", text, "--relabel")


def test_what_is_wrong_with_a_piece_is_told_with_its_remedy(daemon, piece, tmp_path):
    text = write_edges(tmp_path / "edges.txt", 3_000)
    plan, count = planned(piece, tmp_path / "pieces", text, "--piece-size", "10KiB")
    assert [line.split(":")[0] for line in piece("check", "--of", plan).out.splitlines()] == \
        [str(index) for index in range(count)]
    for index in range(count - 1):
        piece("--of", plan, "--index", index)

    def refusal() -> str:
        return daemon.json("dataset", "import", "no", "--source", str(plan.parent),
                           code=1)["error"]["message"]

    remedy = f"make the piece: hearth piece --of {plan} --index "
    assert "is missing" in refusal() and remedy + str(count - 1) in refusal()
    piece("--of", plan, "--index", count - 1)
    bytes_of = (plan.parent / "piece-000001.edges").read_bytes()
    (plan.parent / "piece-000001.edges").write_bytes(b"\1" + bytes_of[1:])
    assert remedy + "1" in refusal()
    assert piece("check", "--of", plan).out == ""
    assert piece("check", "--of", plan, "--contents").out.startswith("1: ")
    piece("--of", plan, "--index", 1)
    assert (plan.parent / "piece-000001.edges").read_bytes() == bytes_of
    assert contents(daemon, "no", plan.parent) == contents(daemon, "no", text)


def test_mistakes_are_told_by_words_and_exit_code(daemon, piece, tmp_path):
    text = tmp_path / "edges.txt"
    text.write_text("0 1\n1 2\n2 x\n")
    plan, count = planned(piece, tmp_path / "pieces", text, "--piece-size", "4")
    assert count == 3
    assert f"{text} after byte 8: line 1, field 2" in piece("--of", plan, "--index", 2, code=2).err
    assert "pieces 0 .. 2" in piece("--of", plan, "--index", 3, code=2).err
    assert "--index" in piece("--of", plan, code=2).err
    text.write_text("0 1\n1 2\n2 0\n3 1\n")
    assert "was changed" in piece("--of", plan, "--index", 0, code=1).err
    assert "another plan" in piece("plan", plan.parent, text, code=1).err
    refused = daemon.json("dataset", "import", "no", "--source", str(plan.parent), "--relabel",
                          code=1)["error"]["message"]
    assert "--relabel" in refused and "do not apply" in refused


@pytest.fixture
def long_piece(piece, tmp_path):
    """A piece that takes a while, and its bytes."""
    text = tmp_path / "edges.txt"
    text.write_bytes(b"1 2\n3 4\n" * 1_000_000)
    plan, count = planned(piece, tmp_path / "pieces", text)
    assert count == 1
    piece("--of", plan, "--index", 0)
    made = plan.parent / "piece-000000.edges"
    whole = made.read_bytes()
    made.unlink()
    return plan, made, whole


def unfinished(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tmp"))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_ended_leaves_no_piece(long_piece, piece, how):
    plan, made, whole = long_piece
    process = subprocess.Popen([HEARTH_PIECE, "--of", str(plan), "--index", "0"],
                               stderr=subprocess.DEVNULL)
    wait_for(lambda: any(path.stat().st_size for path in unfinished(plan.parent)), "some edges")
    process.send_signal(how)
    code = process.wait()
    if how == signal.SIGTERM:
        assert code == 130 and not unfinished(plan.parent)
    else:
        assert code == -signal.SIGKILL and len(unfinished(plan.parent)) == 1
    assert not made.exists()
    assert "is missing" in piece("check", "--of", plan).out
    piece("--of", plan, "--index", 0)
    assert made.read_bytes() == whole
