"""Malformed inputs: each refused by name, and the daemon goes on."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from jobs import QUICK
from malformed import FILES, GRAPH, cases

CASES = cases()


def names(daemon):
    return {dataset["name"] for dataset in daemon.json("dataset", "list")["datasets"]}


def assert_refused(daemon, folder, file, *flags):
    job = daemon.json("dataset", "import", "malformed", "--source", str(folder), *flags, code=1)
    assert job["state"] == "FAILED"
    assert file in job["error"]["message"], job["error"]
    assert str(folder) in job["error"]["message"]
    assert names(daemon) == {"planted"}
    assert not list((daemon.data_dir / "datasets").glob("*malformed*"))


def test_there_are_enough_of_them():
    assert len(CASES) >= 100
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_it_is_refused(daemon, tmp_path, case):
    folder = GRAPH.write(tmp_path / "graph")
    case.spoil(folder)
    assert_refused(daemon, folder, case.file, *case.flags)


def test_sources_that_hold_no_graph(daemon, tmp_path):
    (tmp_path / "file").write_text("")
    for source, why in ((tmp_path / "nowhere", "No such file"), (tmp_path / "file", "has no edges")):
        refused = daemon.hearth("dataset", "import", "x", "--source", str(source), code=1)
        assert str(source) in refused.err
        assert why in refused.err
        assert names(daemon) == {"planted"}


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_only_regular_files_are_read(daemon, tmp_path, kind):
    folder = GRAPH.write(tmp_path / "graph")
    path = folder / "node_feat.npy"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)  # Opening one blocks until somebody writes.
    else:
        path.symlink_to("/dev/zero")
    assert_refused(daemon, folder, "node_feat.npy")


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_refused(daemon, tmp_path, seed):
    """Any byte of any header, its padding included, becomes one that no header may hold there."""
    choices = random.Random(seed)
    folder = GRAPH.write(tmp_path / "graph")
    path = folder / f"{choices.choice(FILES)}.npy"
    content = bytearray(path.read_bytes())
    for position in choices.sample(range(128), choices.randrange(1, 4)):
        # Not a blank: between words, one may stand for another.
        others = set(range(256)) - set(b" \t\r\n\f\v") - {content[position]}
        content[position] = choices.choice(sorted(others))
    path.write_bytes(content)
    assert_refused(daemon, folder, path.name)


def test_damage_after_the_import_is_found(daemon, tmp_path):
    """Bits that rot in the daemon's own files fail the job, and name the file."""
    daemon.import_graph("rotten", GRAPH.write(tmp_path / "graph"))
    path = next((daemon.data_dir / "datasets" / "rotten").glob("*indices*"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x40
    path.write_bytes(content)
    failed = daemon.json(*QUICK, "--dataset", "rotten", code=1)
    assert path.name in failed["error"]["message"]
    daemon.hearth("dataset", "delete", "rotten")


def test_the_daemon_goes_on(daemon, tmp_path):
    assert daemon.is_alive()
    daemon.import_graph("good", GRAPH.write(tmp_path / "graph"))
    assert np.isfinite(daemon.json(*QUICK)["report"]["epochs"][-1]["loss"])
    daemon.hearth("dataset", "delete", "good")
