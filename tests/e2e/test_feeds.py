"""Batches for models that scripts train themselves (hearth.torch): the same with every strategy,
in company, and whatever becomes of the script or the daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from daemon import TIRELESS, wait_for

pytest.importorskip("grpc", reason="grpcio is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from feed_client import digest, taken_through_kills  # noqa: E402

import hearth  # noqa: E402
import hearth.torch  # noqa: E402
from hearth.errors import HearthError  # noqa: E402

# 1,800 training nodes of `planted` in 29 batches.
BATCHES = 29
LOADER = {"dataset": "planted", "num_neighbors": [5, 4], "batch_size": 64, "distinct_epochs": 4}
NATIVE = ("train", "--dataset", "planted", "--sampler", "subgraph", "--fanouts", "5,4",
          "--batch-size", "64", "--epochs", "4", "--model", "sage", "--hidden", "16")
PARTITION = {"order": "partition", "parts": 24, "macro_batch_parts": 5}


def socket_of(daemon) -> str:
    return f"unix:{daemon.data_dir}/hearth.sock"


@pytest.fixture
def client(daemon):
    with hearth.Client(socket_of(daemon)) as made:
        yield made


@pytest.fixture
def fresh(start_daemon, graph_folder):
    def start(*flags):
        daemon = start_daemon(*TIRELESS, *flags)
        daemon.import_graph("planted", graph_folder)
        return daemon
    return start


def taken(client, epochs=2, **options):
    """Digests of the batches of some epochs."""
    with hearth.torch.NeighborLoader(client, **{**LOADER, **options}) as loader:
        return [[digest(batch) for batch in loader] for _ in range(epochs)]


@pytest.fixture(scope="module")
def expected(daemon):
    """Digests of all epochs with everything in memory."""
    with hearth.Client(socket_of(daemon)) as client:
        epochs = taken(client, epochs=4, strategy="memory")
    assert [len(epoch) for epoch in epochs] == [BATCHES] * 4
    assert len(set(sum(epochs, []))) == 4 * BATCHES
    return epochs


def begin(daemon, epochs=2, pause=0.0, **options) -> subprocess.Popen:
    """A script beside the test."""
    arguments = {"server": socket_of(daemon), "loader": {**LOADER, **options}, "epochs": epochs,
                 "pause": pause}
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("feed_client.py")), json.dumps(arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(script: subprocess.Popen, read: list[str]) -> list[list[str]]:
    """Digests that a script has printed, by epochs, once it has ended. `read` are lines that were
    taken before."""
    out, err = script.communicate(timeout=120)
    assert script.returncode == 0, err
    epochs: dict[int, list[str]] = {}
    for line in read + out.splitlines():
        epoch, number, found = line.split()
        assert int(number) == len(epochs.setdefault(int(epoch), []))
        epochs[int(epoch)].append(found)
    return list(epochs.values())


def drain(loader) -> None:
    """Takes an epoch and keeps no batch of it."""
    for _ in loader:
        pass


def newest_feed(daemon) -> str:
    return feeds_of(daemon)[0]


def feeds_of(daemon) -> list[str]:
    """The newest first."""
    return [job["id"] for job in daemon.json("job", "list")["jobs"]
            if job["id"].startswith("feed-")]


def slots_of(daemon) -> list[str]:
    return [path for path in daemon.descriptors() if "memfd:hearth" in path]


@pytest.mark.parametrize("options", [
    {"strategy": "mmap"}, {"strategy": "gnndrive", "cpu_cache": "16KiB"},
    {"strategy": "ginex", "cpu_cache": "16KiB"}, {"strategy": "diskgnn", "cpu_cache": "16KiB"},
    {"strategy": "foresight", "cpu_cache": "16KiB"},
    {"strategy": "gids", "cpu_cache": "16KiB", "window_cache": "16KiB"},
    {"strategy": "gnndrive", "samplers": 3, "extractors": 2},
], ids=lambda options: "-".join(map(str, options.values())))
def test_every_strategy_gives_the_batches_of_memory(client, expected, options):
    assert taken(client, **options) == expected[:2]


def test_outre_gives_the_batches_of_memory_in_its_order(client):
    ordered = taken(client, strategy="memory", **PARTITION)
    assert taken(client, strategy="outre", cpu_cache="64KiB", **PARTITION) == ordered


def test_a_daemon_that_is_killed_changes_no_batch(fresh, expected):
    daemon = fresh()
    assert taken_through_kills(daemon, socket_of(daemon), epochs=3, **LOADER,
                               strategy="gnndrive") == expected[:3]
    wait_for(lambda: daemon.state(newest_feed(daemon)) == "SUCCEEDED", "the feed's end")
    wait_for(lambda: not slots_of(daemon), "all slots to be free")


def test_a_script_that_is_killed_leaves_nothing_behind(fresh):
    daemon = fresh("--feed-patience", "2s")
    script = begin(daemon, epochs=100, pause=0.05)
    for _ in range(10):
        script.stdout.readline()
    assert slots_of(daemon)
    script.kill()
    script.communicate()
    # Others can go on, and the job is given up.
    assert daemon.json(*NATIVE)["state"] == "SUCCEEDED"
    daemon.wait_for_state(newest_feed(daemon), "CANCELLED")
    wait_for(lambda: not slots_of(daemon), "all slots to be free")


def test_a_script_that_is_stopped_gives_way_and_goes_on(fresh, expected):
    daemon = fresh("--max-running-jobs", "1", "--convoy-members", "1")
    script = begin(daemon, epochs=2, pause=0.02)
    read = [script.stdout.readline() for _ in range(5)]
    script.send_signal(signal.SIGSTOP)
    job = newest_feed(daemon)
    other = daemon.json(*NATIVE, "--detach")["id"]
    daemon.wait_for_state(other, "SUCCEEDED")
    shown = daemon.json("job", "show", job)
    assert shown["state"] == "WAITING" and "client" in shown["waiting_reason"]
    script.send_signal(signal.SIGCONT)
    assert end(script, read) == expected[:2]
    daemon.wait_for_state(job, "SUCCEEDED")


def test_loaders_and_a_native_job_share_one_pass(fresh, expected):
    daemon = fresh("--max-running-jobs", "1")
    native = (*NATIVE, "--strategy", "mmap")
    alone = daemon.json(*native)["report"]
    blocker = daemon.json("train", "--dataset", "planted", "--epochs", "100000", "--detach")["id"]
    daemon.wait_for_state(blocker, "RUNNING")
    found = {}

    def take(name, writes):
        with hearth.Client(socket_of(daemon)) as client:
            with hearth.torch.NeighborLoader(client, **LOADER, strategy="mmap") as loader:
                found[name] = []
                for _ in range(4):
                    found[name].append([])
                    for batch in loader:
                        found[name][-1].append(digest(batch))
                        if writes:  # Its own pages: nobody else sees it.
                            batch.x.zero_()

    scripts = [threading.Thread(target=take, args=(name, name == "writer"))
               for name in ("writer", "reader")]
    for script in scripts:
        script.start()
    wait_for(lambda: len(feeds_of(daemon)) == 2, "two feeds")
    job = daemon.json(*native, "--detach")["id"]
    daemon.hearth("job", "cancel", blocker)
    for script in scripts:
        script.join()
    daemon.wait_for_state(job, "SUCCEEDED")
    report = daemon.json("job", "show", job)["report"]
    assert found == {"writer": expected, "reader": expected}
    assert report["loss_digest"] == alone["loss_digest"]
    assert len(report["company"]["jobs"]) == 2


def test_a_script_that_hoards_gets_all_batches(client, expected):
    with hearth.torch.NeighborLoader(client, **LOADER, strategy="memory") as loader:
        hoard = list(loader)
        assert [digest(batch) for batch in hoard] == expected[0]
        assert [digest(batch) for batch in loader] == expected[1]
        assert [digest(batch) for batch in hoard] == expected[0]


def test_a_child_of_the_script_cannot_take_its_batches(client, expected):
    with hearth.torch.NeighborLoader(client, **LOADER, strategy="memory") as loader:
        batches = iter(loader)
        found = [digest(next(batches))]
        child = os.fork()
        if child == 0:
            try:
                next(batches)
            except RuntimeError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        found += [digest(batch) for batch in batches]
    assert found == expected[0]


def test_memory_and_descriptors_do_not_grow(daemon, client):
    with hearth.torch.NeighborLoader(client, **{**LOADER, "batch_size": 8},
                                     strategy="gnndrive") as loader:
        held = []
        for _ in range(8):
            drain(loader)
            held.append(len(slots_of(daemon)))
    # As many as were out at once at most: the pipeline's, and those of the credits.
    assert max(held) <= 40
    wait_for(lambda: not slots_of(daemon), "all slots to be free")


def test_what_the_script_reports_is_shown(daemon, client):
    with hearth.torch.NeighborLoader(client, **LOADER, strategy="memory") as loader:
        for epoch in (1, 2):
            drain(loader)
            # Whether or not the script has reported an epoch.
            top, = (one for one in daemon.json("top")["jobs"] if one["id"] == newest_feed(daemon))
            assert top["bound_by"] in top["stages"] and "client" in top["stages"]
            loader.report(epoch, loss=1 / epoch, metric=0.5 + epoch / 10)
    job = newest_feed(daemon)
    daemon.wait_for_state(job, "SUCCEEDED")
    shown = daemon.json("job", "show", job)["report"]
    assert [epoch["loss"] for epoch in shown["epochs"]] == [1, 0.5]
    assert [epoch["valid_metric"] for epoch in shown["epochs"]] == [0.6, 0.7]
    assert shown["train"]["passes"] == 2 and shown["train"]["sum"]["batches"] == 2 * BATCHES
    assert shown["train"]["sum"]["stages"][-1]["name"] == "client"
    text = daemon.hearth("job", "show", job).out
    assert "the client waited for batches" in text and "0.600" in text


def test_a_cancelled_feed_tells_its_script(daemon, client):
    with hearth.torch.NeighborLoader(client, **LOADER, strategy="memory") as loader:
        batches = iter(loader)
        next(batches)
        daemon.hearth("job", "cancel", newest_feed(daemon))
        with pytest.raises(HearthError, match="cancelled"):
            for _ in range(BATCHES):
                next(batches)
