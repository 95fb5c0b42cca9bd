"""Which peers run, within which memory, and what is kept of their runs."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers_bench  # noqa: E402
from peer_runs import Options, Peer, Peers  # noqa: E402
from peers_bench import chosen_peers  # noqa: E402
from stored_runs import disk_of, runs_of  # noqa: E402

from figures import Epoch, Run  # noqa: E402
from fio import DiskRate, DiskRates  # noqa: E402
from summary import Summary  # noqa: E402

MIB = 1 << 20
# A peer that tells how it was called. Its disk takes 10 MiB more than what is mapped, and
# its cache 12 MiB besides the rows in it.
PEER = """\
import json, sys, time
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
if options["--workers"] == "9":
    time.sleep(60)
if options["--workers"] == "8":
    sys.exit("it broke")
epochs = [{"seconds": 1.0, "rows_needed": 7, "bytes_needed": 7, "bytes_read": 7, "read_ops": None,
           "io_wait_seconds": None, "stages": []}] * int(options["--epochs"])
held = {"disk": 60, "disk-cached": 72 + 20}.get(options["--features"], 50)
open(options["--report"], "w").write(json.dumps(
    {"epochs": epochs, "peak_memory_bytes": held << 20, "versions": {"called": str(options)}}))
"""


def summary(**values):
    stored = Summary("mmap-normal", "none", 0.1, 20 * MIB, 100 * MIB, 1, (),
                     peak_memory_bytes=30.0 * MIB)
    return dataclasses.asdict(dataclasses.replace(stored, **values))


def document(work, summaries, memory_limit=None):
    return {"settings": {
                "size": {"nodes": 100, "edges": 10, "dim": 4, "train_share": 0.5, "graph": "rmat"},
                "work": str(work), "memory_limit": memory_limit, "limit_memory": True, "epochs": 2,
                "fanouts": "3,2", "batch_size": 5, "hidden": 6}, "summaries": summaries}


@pytest.fixture
def new_peers(tmp_path):
    """Peers that tell how they were called."""
    (tmp_path / "peer.py").write_text(PEER)

    def make(summaries, memory_limit=None, workers=2, limit_memory=False, run_seconds=30.0,
             name="graphbolt"):
        python = tmp_path / "environments" / name / "bin/python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/peer.py" "$@"\n')
        python.chmod(0o755)
        options = Options(tmp_path / "environments", workers, "fp32", "cpu", run_seconds,
                          limit_memory)
        peers = Peers(document(tmp_path, summaries, memory_limit), options)
        peers.folder.mkdir(parents=True, exist_ok=True)
        return peers

    return make


def test_a_peer_runs_wherever_it_can_have_its_features():
    assert [peer.strategy for peer in chosen_peers(["pyg", "graphbolt"], None, True)] == [
        "pyg-memory", "pyg-normal", "pyg-random", "graphbolt-memory", "graphbolt-normal",
        "graphbolt-random", "graphbolt-disk", "graphbolt-disk-cached"]
    assert [peer.strategy for peer in chosen_peers(["hearth"], None, False)] == [
        "hearth-gnndrive", "hearth-diskgnn"]
    some = chosen_peers(["pyg", "graphbolt"], ["memory", "disk"], False)
    assert [peer.strategy for peer in some] == ["graphbolt-disk"]


def test_each_model_and_cache_is_a_setting_with_the_room_that_mmap_had(new_peers):
    peers = new_peers([summary(strategy="gnndrive"), summary(), summary(strategy="mmap-random"),
                       summary(model="sage", failures=("died",)),
                       summary(cache_share=0.2, cache_bytes=40 * MIB)])
    assert [(each.model, each.cache_bytes, each.page_cache_bytes) for each in peers.settings()] == [
        ("none", 20 * MIB, 70 * MIB), ("none", 40 * MIB, 70 * MIB)]


def test_a_fixed_limit_needs_no_mmap(new_peers):
    (setting,) = new_peers([summary(strategy="gnndrive")], memory_limit=90 * MIB).settings()
    assert setting.page_cache_bytes is None
    assert not list(new_peers([summary(strategy="gnndrive")]).settings())


def test_without_limits_peers_have_none(new_peers):
    peers = new_peers([summary(strategy="gnndrive", memory_limit_bytes=None)])
    peers._settings["limit_memory"] = False
    (setting,) = peers.settings()
    assert peers.run(Peer("graphbolt", "disk"), setting, 1).memory_limit_bytes is None


@pytest.mark.parametrize(("features", "limit"), [
    ("memory", None), ("normal", 120 * MIB), ("disk", 130 * MIB), ("disk-cached", 142 * MIB)])
def test_a_peer_gets_what_it_holds_and_the_room(new_peers, monkeypatch, features, limit):
    limits = []

    class Cgroup:
        def __init__(self, limit_bytes):
            limits.append(limit_bytes)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def command(self, command):
            return command

        def usage(self):
            return {"peak_bytes": 1, "out_of_memory_kills": 0}

    monkeypatch.setattr("peer_runs.MemoryCgroup", Cgroup)
    peers = new_peers([summary()], limit_memory=True)
    (setting,) = peers.settings()
    run = peers.run(Peer("graphbolt", features), setting, 1)
    assert run.failure is None and run.strategy == f"graphbolt-{features}"
    assert run.memory_limit_bytes == limit and len(run.epochs) == 2
    assert limits == ([] if limit is None else [limit])
    called = peers.versions["graphbolt"]["called"]
    assert f"'--features': '{features}'" in called and f"'--cache-bytes': '{20 * MIB}'" in called


@pytest.mark.parametrize(("strategy", "options"), [
    ("memory", {}), ("gnndrive", {"io_depth": 128, "cpu_cache": 20 * MIB}),
    ("diskgnn", {"io_depth": 128, "cpu_cache": 20 * MIB})])
def test_hearth_feeds_a_peer_with_the_options_of_its_own_runs(new_peers, strategy, options):
    peers = new_peers([summary()], memory_limit=90 * MIB)
    peers._settings.update(samplers=2, extractors=None, io_depth=128)
    (setting,) = peers.settings()
    peer = Peer("hearth", strategy)
    command = peers._command(peer, setting, 2, Path("report.json"))
    assert json.loads(command[command.index("--feed") + 1]) == {
        "strategy": strategy, "data_seed": 1, "distinct_epochs": 2, "samplers": 2, **options}
    # Its cache is its own memory, and nothing else of it depends on the strategy.
    assert peer.alone == peer and peer.cache_bytes(setting) == options.get("cpu_cache", 0)
    assert peer.limited == (strategy != "memory")


def test_hearth_runs_in_the_cgroup_of_its_daemon(new_peers, monkeypatch):
    entered = []

    class Cgroup:
        def __init__(self, limit_bytes):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def command(self, command):
            entered.append(command[command.index("--server"):])
            return command

        def usage(self):
            return {"peak_bytes": 1, "out_of_memory_kills": 0}

    class Daemon:
        socket, pid = "unix:/there", 7

        def __init__(self, data_dir, cgroup):
            entered.append((data_dir.name, type(cgroup)))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            entered.append("ended")

    monkeypatch.setattr("peer_runs.MemoryCgroup", Cgroup)
    monkeypatch.setattr("peer_runs.HearthDaemon", Daemon)
    peers = new_peers([summary()], memory_limit=90 * MIB, limit_memory=True, name="hearth")
    (setting,) = peers.settings()
    run = peers.run(Peer("hearth", "gnndrive"), setting, 1)
    assert run.failure is None and run.memory_limit_bytes == 90 * MIB
    assert entered == [("data", Cgroup), ["--server", "unix:/there", "--daemon", "7"], "ended"]


@pytest.mark.parametrize(("workers", "message"), [(8, "it broke"), (9, "not done in 0.5 s")])
def test_a_run_that_fails_or_hangs_is_a_failure(new_peers, workers, message):
    peers = new_peers([summary()], workers=workers, run_seconds=0.5 if workers == 9 else 30)
    (setting,) = peers.settings()
    run = peers.run(Peer("graphbolt", "disk"), setting, 3)
    assert run.failure == message and run.round == 3 and not run.epochs


def test_runs_without_a_cache_are_made_once_for_all_caches(new_peers):
    peers = new_peers([summary(), summary(cache_share=0.2, cache_bytes=40 * MIB)],
                      memory_limit=90 * MIB)
    calls = []
    peers.run = lambda peer, setting, number: calls.append(peer) or Run(
        peer.strategy, setting.model, setting.cache_share, setting.cache_bytes, number, None)
    chosen = chosen_peers(["graphbolt"], ["disk", "disk-cached"], True)
    runs = peers_bench._run_all(peers, chosen, 1)
    assert [peer.features for peer in calls] == ["disk", "disk-cached", "disk-cached"]
    assert [(run.strategy, run.cache_share) for run in runs] == [
        ("graphbolt-disk", 0.1), ("graphbolt-disk-cached", 0.1),
        ("graphbolt-disk", 0.2), ("graphbolt-disk-cached", 0.2)]


def test_stored_runs_come_back_as_those_of_a_round():
    epoch = Epoch(2.0, 7, 7, 7, None, None, None, 0.5)
    run = Run("memory", "none", 0.1, 20, 1, None, (epoch, epoch))
    rates = DiskRates(DiskRate(512, 10.0, 5120.0), DiskRate(4096, 9.0, 36864.0))
    stored = json.loads(json.dumps({
        "runs": [dataclasses.asdict(run)],
        "disk": {"rounds": [{"round": 1, **dataclasses.asdict(rates)}]}}))
    assert runs_of(stored, 3) == [dataclasses.replace(run, round=3)]
    assert disk_of(stored, 3) == {3: rates}


def test_turns_alternate_and_compare_within_a_round(tmp_path, monkeypatch, capsys):
    """Hearth and a peer, two turns: the peer takes half as long again as Hearth's memory."""
    epoch = Epoch(2.0, 7, 7, 7, None, None, None, 0.5)
    order = []

    def run_hearth(command, check):
        order.append("hearth")
        assert command[1:5] == ["--quick", "--repeats", "1", "--json"]
        runs = [Run("memory", "none", 0.1, 20, 1, None, (epoch,))]
        Path(command[5]).write_text(json.dumps({
            **document(tmp_path, [summary()]), "disk": {"rounds": []},
            "runs": [dataclasses.asdict(run) for run in runs]}))

    def run_peer(self, peer, setting, number):
        order.append(peer.strategy)
        return Run(peer.strategy, "none", 0.1, 20, number, None,
                   (dataclasses.replace(epoch, seconds=3.0),))

    monkeypatch.setattr(peers_bench.subprocess, "run", run_hearth)
    monkeypatch.setattr(Peers, "run", run_peer)
    assert peers_bench.main(["--turns", "2", "--environments", str(tmp_path), "--peers", "pyg",
                             "--features", "memory", "--json", str(tmp_path / "peers.json"),
                             "--", "--quick"]) == 0
    assert order == ["hearth", "pyg-memory"] * 2
    written = json.loads((tmp_path / "peers.json").read_text())
    by_name = {each["strategy"]: each for each in written["summaries"]}
    assert by_name["pyg-memory"]["tax_to_memory"] == 1.5 and by_name["pyg-memory"]["runs"] == 2
    assert "pyg-memory" in capsys.readouterr().out


def test_options_of_hearth_go_with_turns_alone(tmp_path):
    with pytest.raises(SystemExit):
        peers_bench.main(["--like", "x.json", "--environments", str(tmp_path), "--", "--quick"])
