"""kill -9 in the middle of imports, and imports of files larger than memory."""

from __future__ import annotations

import gzip
import random
import shutil
import time

import numpy as np
import pytest

from daemon import PATIENCE_SECONDS, TIRELESS, wait_for
from graphs import planted_graph
from heterographs import Heterograph

GIB = 1 << 30


@pytest.fixture(scope="module")
def large_folder(tmp_path_factory):
    """Large enough that an import takes a while: 100 MB of features."""
    graph = planted_graph(num_nodes=50_000, dim=512, degree=20, seed=3)
    return graph.write(tmp_path_factory.mktemp("large") / "graph")


@pytest.fixture(scope="module")
def edge_list(tmp_path_factory):
    """A million edges whose ids are words: relabeling sorts them in scratch files."""
    path = tmp_path_factory.mktemp("edges") / "edges.csv.gz"
    ids = np.random.default_rng(5).integers(0, 200_000, size=(1_000_000, 2))
    with gzip.open(path, "wt", compresslevel=1) as lines:
        lines.writelines(f"user-{source},user-{target}\n" for source, target in ids)
    return path


def leftovers(daemon):
    return list((daemon.data_dir / "datasets").glob("*.tmp*"))


def kill_imports(daemon, source, count, moments, *flags):
    name = "large"
    importing = ("dataset", "import", name, "--source", str(source), *flags)
    expected = daemon.json(*importing)["report"]
    fingerprint = daemon.json("dataset", "show", name)["fingerprint"]
    for _ in range(count):
        daemon.hearth("dataset", "delete", name)
        job = daemon.json(*importing, "--detach")["id"]
        time.sleep(moments.uniform(0, expected["seconds"]))  # Any moment will do.
        daemon.kill()
        daemon.start()
        listed = [dataset["name"] for dataset in daemon.json("dataset", "list")["datasets"]]
        if name in listed:  # Whole, then.
            assert daemon.json("dataset", "show", name)["fingerprint"] == fingerprint
        daemon.wait_for_state(job, "SUCCEEDED")
        assert daemon.json("dataset", "show", name)["fingerprint"] == fingerprint
        assert leftovers(daemon) == []


def test_kill_9_leaves_nothing_half_imported(start_daemon, large_folder):
    kill_imports(start_daemon(*TIRELESS), large_folder, 6, random.Random(1))


def test_kill_9_while_ids_are_relabeled(start_daemon, edge_list):
    kill_imports(start_daemon(*TIRELESS), edge_list, 4, random.Random(3), "--relabel")


@pytest.mark.full("imports")
def test_kill_9_leaves_nothing_half_imported_many_times(start_daemon, large_folder):
    kill_imports(start_daemon(*TIRELESS), large_folder, 60, random.Random(2))


@pytest.mark.full("imports")
def test_kill_9_while_ids_are_relabeled_many_times(start_daemon, edge_list):
    kill_imports(start_daemon(*TIRELESS), edge_list, 20, random.Random(4), "--relabel")


@pytest.fixture(scope="module")
def wide_heterograph(tmp_path_factory):
    """Five types of nodes with 72 MiB of features each: as many parts worth keeping."""
    random = np.random.default_rng(7)
    names = ("paper", "author", "field", "journal", "venue")
    rows = random.standard_normal((18 << 10, 1 << 10), dtype=np.float32)
    count = len(rows)
    graph = Heterograph(
        {name: np.roll(rows, shift, axis=0) for shift, name in enumerate(names)},
        {(name, "is_of", "paper"): random.integers(0, count, (2, 50_000)) for name in names},
        random.integers(0, 4, count),
        dict(zip(("train_set", "validation_set", "test_set"),
                 np.split(random.permutation(count), (10_000, 14_000)))))
    return names, graph.write(tmp_path_factory.mktemp("wide") / "graph")


def await_features(daemon, job, name):
    """Waits until the import writes the features of `name`: those before are durable."""
    begun = daemon.data_dir / "datasets" / f"{job}.tmp" / f"{name}.features.npy"
    wait_for(begun.exists, f"the import to begin {name}")


def begin_import(daemon, source, name):
    """The id of an import that is writing the features of `name`."""
    # Little memory makes it slower, and changes nothing else.
    job = daemon.json("dataset", "import", "wide", "--source", str(source),
                      "--memory-limit", "1MiB", "--detach")["id"]
    await_features(daemon, job, name)
    return job


def test_an_import_that_gets_on_outlives_more_deaths_than_retries(start_daemon,
                                                                   wide_heterograph):
    names, source = wide_heterograph
    daemon = start_daemon("--retries", "2")
    # Little memory makes it slower, and changes nothing else.
    importing = ("dataset", "import", "wide", "--source", str(source), "--memory-limit", "1MiB")
    daemon.hearth(*importing)
    shown = daemon.json("dataset", "show", "wide")
    daemon.hearth("dataset", "delete", "wide")
    job = daemon.json(*importing, "--detach")["id"]
    for following in names[1:]:
        await_features(daemon, job, following)
        daemon.kill()
        daemon.start()
    assert daemon.json("job", "watch", job)["state"] == "SUCCEEDED"
    again = daemon.json("dataset", "show", "wide")
    for what in ("fingerprint", "node_types", "edge_types", "transforms", "warnings"):
        assert again.get(what) == shown.get(what)
    log = daemon.hearth("job", "logs", job).out
    for name in names[:-1]:
        assert f"kept from an earlier run: features of {name}" in log
    assert leftovers(daemon) == []
    daemon.hearth("dataset", "verify", "wide")


def test_an_import_that_failed_leaves_nothing(start_daemon, wide_heterograph):
    names, source = wide_heterograph
    daemon = start_daemon("--retries", "1")
    job = begin_import(daemon, source, names[1])
    daemon.kill()
    daemon.start()
    assert daemon.state(job) == "FAILED"
    assert leftovers(daemon) == []
    # It begins anew, then.
    assert daemon.json("job", "resume", job)["state"] == "SUCCEEDED"
    assert "kept from an earlier run" not in daemon.hearth("job", "logs", job).out


def test_an_import_goes_on_after_the_daemon_was_stopped(start_daemon, wide_heterograph):
    names, source = wide_heterograph
    daemon = start_daemon()
    job = begin_import(daemon, source, names[2])
    daemon.stop()
    daemon.start()
    assert daemon.json("job", "watch", job)["state"] == "SUCCEEDED"
    assert f"kept from an earlier run: features of {names[1]}" in daemon.hearth("job", "logs", job).out


def test_a_cancelled_import_leaves_nothing(start_daemon, edge_list):
    daemon = start_daemon()
    # It takes seconds, so that it is met in the middle.
    job = daemon.json("dataset", "import", "x", "--source", str(edge_list), "--relabel",
                      "--detach")["id"]
    wait_for(lambda: leftovers(daemon), "the import to write")
    daemon.hearth("job", "cancel", job)
    assert daemon.json("job", "watch", job, code=1)["state"] == "CANCELLED"
    assert daemon.json("dataset", "list")["datasets"] == []
    assert leftovers(daemon) == []


@pytest.mark.full("sizes")
def test_4_gib_of_features_import_within_512_mib(start_daemon, tmp_path):
    num_nodes, dim = 1 << 20, 1024
    graph = planted_graph(num_nodes, dim=1, degree=8)
    folder = graph.write(tmp_path / "huge")
    features = np.lib.format.open_memmap(folder / "node_feat.npy", mode="w+", dtype=np.float32,
                                         shape=(num_nodes, dim))
    features[::1000] = 1.5  # The rest stays sparse.
    features.flush()
    assert (folder / "node_feat.npy").stat().st_size > 4 * GIB
    assert peak_of_import(start_daemon(), folder) < GIB // 2


@pytest.mark.full("sizes")
def test_500_million_edges_import_within_1_gib(start_daemon, tmp_path):
    if shutil.disk_usage(tmp_path).free < 40 * GIB:
        pytest.skip("needs 40 GiB of disk")
    daemon = start_daemon()
    folder = tmp_path / "source"
    daemon.hearth("dataset", "generate", "--to", str(folder), "--graph", "rmat",
                  "--nodes", "30000000", "--edges", "500000000", "--dim", "16",
                  "--train", "0.01", patience=20 * PATIENCE_SECONDS)
    assert peak_of_import(daemon, folder, "--in-place", "--memory-limit", "768MiB") < GIB
    shown = daemon.json("dataset", "show", "huge")
    assert shown["edge_types"][0]["num_edges"] == 500_000_000
    assert shown["node_types"][0]["feature_path"].startswith(str(folder))
    daemon.hearth("dataset", "verify", "huge", patience=20 * PATIENCE_SECONDS)


def peak_of_import(daemon, folder, *flags):
    """Peak of the daemon's memory, in bytes, while it imports `folder` as "huge"."""
    peak = peak_during(daemon, "dataset", "import", "huge", "--source", str(folder), *flags)
    wait_for(lambda: daemon.json("dataset", "show", "huge"), "the dataset")
    return peak


def peak_during(daemon, *command):
    """Peak of the daemon's memory, in bytes, until `command`, which may take long, has succeeded."""
    running = daemon.begin(*command)
    peak = 0

    def has_ended():
        nonlocal peak
        peak = max(peak, daemon.resident_bytes())
        return running.poll() is not None

    deadline = time.monotonic() + 20 * PATIENCE_SECONDS
    while time.monotonic() < deadline and not has_ended():
        time.sleep(0.005)
    assert running.poll() == 0, running.stderr.read()
    return peak
