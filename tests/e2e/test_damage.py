"""Damaged data under the data directory: named, or without any effect; the daemon goes on."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from jobs import ENDLESS, QUICK

PARTITION = ("--order", "partition", "--parts", "24", "--macro-batch-parts", "5")
# Job specs that read the dataset in every way there is. Budgets hold some of the rows.
STRATEGIES = {
    "memory": ("--strategy", "memory"),
    "mmap": ("--strategy", "mmap"),
    "gnndrive": ("--strategy", "gnndrive", "--cpu-cache", "64KiB"),
    "ginex": ("--strategy", "ginex", "--cpu-cache", "64KiB", "--superbatch", "10"),
    "diskgnn": ("--strategy", "diskgnn", "--cpu-cache", "64KiB"),
    "outre": ("--strategy", "outre", *PARTITION, "--cpu-cache", "64KiB"),
    "gids": ("--strategy", "gids", "--cpu-cache", "32KiB", "--window-cache", "32KiB"),
    "foresight": ("--strategy", "foresight", "--cpu-cache", "64KiB"),
}
FLIPS = 12
# Canonical codes.
FAILED_PRECONDITION, DATA_LOSS = 9, 15
# Parts and flips of each strategy, in tests that can be run one by one.
PARTS_IN_FULL, FLIPS_IN_PART = 4, 100


def flip_bit(path: Path, position: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


@pytest.fixture
def digest(daemon, strategy) -> str:
    """Of undamaged data, in the order in which the strategy visits it."""
    order = PARTITION if strategy == "outre" else ()
    return daemon.json(*QUICK, *STRATEGIES["memory"], *order)["report"]["loss_digest"]


def expect_found_or_harmless(daemon, digest, strategy, dataset, place) -> bool:
    """Trains on damaged data; whether the damage was found."""
    done = daemon.hearth(*QUICK, "--dataset", dataset, *STRATEGIES[strategy], "--output", "json",
                         code=None)
    if done.code == 0:
        assert done.json["report"]["loss_digest"] == digest, f"trained on {place}"
        return False
    # Refused at submission, or ended with an error that says so.
    assert "damaged" in done.err or "DATA_LOSS" in done.err, (place, done.err, done.out)
    assert daemon.is_alive()
    return True


def flip_and_train(start_daemon, graph_folder, digest, strategy, flips, seed):
    """Flips one bit anywhere in each of as many datasets; a new daemon meets them all."""
    daemon = start_daemon()
    chosen = random.Random(f"{strategy} {seed}")
    places = {}
    for number in range(flips):
        dataset = f"planted-{number}"
        daemon.import_graph(dataset, graph_folder)
        folder = daemon.data_dir / "datasets" / dataset
        path = chosen.choice(sorted(path for path in folder.iterdir() if path.is_file()))
        position = chosen.randrange(path.stat().st_size)
        bit = chosen.randrange(8)
        flip_bit(path, position, bit)
        places[dataset] = f"{path.name}, byte {position}, bit {bit}"
    daemon.kill()
    daemon.start()
    return sum(expect_found_or_harmless(daemon, digest, strategy, dataset, place)
               for dataset, place in places.items())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_flipped_bits_are_found_or_harmless(start_daemon, graph_folder, digest, strategy):
    assert flip_and_train(start_daemon, graph_folder, digest, strategy, FLIPS, seed=0) > 0


@pytest.mark.full("damage")
@pytest.mark.parametrize("part", range(1, PARTS_IN_FULL + 1))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_flipped_bits_are_found_or_harmless(start_daemon, graph_folder, digest, tell,
                                                 strategy, part):
    found = flip_and_train(start_daemon, graph_folder, digest, strategy, FLIPS_IN_PART, seed=part)
    tell(f"{found} of {FLIPS_IN_PART} flips found, the others harmless")


@pytest.mark.parametrize("strategy", ["mmap", "gnndrive", "ginex"])
@pytest.mark.parametrize("name, start", [("node.features.npy", 4096), ("edge.indices.npy", 128)])
def test_damage_under_a_warm_daemon_is_named(daemon, digest, strategy, name, start):
    # The job before has verified the file and left its caches; a changed file counts as new.
    daemon.json(*QUICK, *STRATEGIES[strategy])
    path = daemon.data_dir / "datasets" / "planted" / name
    keep = path.read_bytes()
    for position in range(start, start + 3000, 500):
        flip_bit(path, position, 3)
    try:
        done = daemon.hearth(*QUICK, *STRATEGIES[strategy], "--samplers", "2", "--output", "json",
                             code=None)
        assert done.code != 0
        assert "DATA_LOSS" in done.err and name in done.err, done.err
    finally:
        path.write_bytes(keep)
    assert daemon.json(*QUICK, *STRATEGIES[strategy])["report"]["loss_digest"] == digest


def test_features_cut_while_they_are_mapped(start_daemon, graph, tmp_path):
    source = graph.write(tmp_path / "source")
    daemon = start_daemon()
    daemon.import_graph("planted", source, "--in-place")
    job = daemon.json(*ENDLESS, "--detach")["id"]
    daemon.wait_for_batches(job, 3)
    os.truncate(source / "node_feat.npy", 8192)
    daemon.wait_for_state(job, "FAILED")
    error = daemon.json("job", "show", job)["error"]
    # By a page that is missing, or by the check before the next epoch.
    assert error["code"] in (DATA_LOSS, FAILED_PRECONDITION), error
    assert "node_feat.npy" in error["message"]
    assert daemon.is_alive()
    # Another dataset's jobs do not notice.
    daemon.import_graph("other", graph.write(tmp_path / "other"))
    daemon.json("train", "--dataset", "other", *QUICK[3:])
