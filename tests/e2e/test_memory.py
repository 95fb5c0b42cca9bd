"""Memory is a promise: bounds that hold, jobs that wait or are refused, warm starts."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from daemon import Daemon
from graphs import planted_graph
from jobs import ENDLESS, LONG, QUICK
from test_metrics import value

# 20 MB of features.
NODES = 40_000
FEATURE_BYTES = NODES * 128 * 4
GENERATE = ("dataset", "generate", "large", "--nodes", str(NODES), "--edges", "400000",
            "--dim", "128", "--seed", "3")
TRAIN = ("train", "--dataset", "large", "--fanouts", "10,10", "--batch-size", "256",
         "--epochs", "1", "--hidden", "64", "--seed", "1")


@pytest.fixture(scope="module")
def strained(daemon):
    daemon.json(*GENERATE)
    return daemon


def check_bound(report):
    assert 0 < report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    return {entry["owner"]: entry["bytes"] for entry in report["memory"]}


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2", "gin"])
def test_a_model_takes_no_more_than_it_reserved(strained, model):
    shares = check_bound(strained.json(*TRAIN, "--model", model, "--strategy", "mmap")["report"])
    assert shares["model"] > 0


@pytest.mark.parametrize("share", [0.05, 0.10, 0.25])
@pytest.mark.parametrize("strategy", ["gnndrive", "ginex"])
def test_no_strategy_takes_more_than_it_reserved(strained, strategy, share):
    budget = int(share * FEATURE_BYTES)
    shares = check_bound(strained.json(*TRAIN, "--model", "none", "--strategy", strategy,
                                       "--cpu-cache", str(budget))["report"])
    assert budget - 512 < shares["cache"] <= budget


@pytest.mark.parametrize("share", [0.10, 0.50, 0.90])
def test_marius_takes_no_more_than_it_reserved(strained, share):
    check_bound(strained.json(*TRAIN, "--model", "none", "--strategy", "marius",
                              "--partition-buffer", str(int(share * FEATURE_BYTES)))["report"])


@pytest.mark.parametrize("share", [0.05, 0.25])
@pytest.mark.parametrize("options", [(), ("--merge-max", "32", "--staging", "16MiB"),
                                     ("--window", "64", "--hot", "frequency")],
                         ids=lambda options: "-".join(options).replace("--", "") or "defaults")
def test_gids_takes_no_more_than_it_reserved(strained, share, options):
    budget = int(share * FEATURE_BYTES)
    shares = check_bound(strained.json(*TRAIN, "--model", "none", "--strategy", "gids",
                                       "--cpu-cache", str(budget), "--window-cache", str(budget),
                                       *options)["report"])
    assert 2 * (budget - 512) < shares["cache"] <= 2 * budget
    assert shares["window"] > 0 and shares["staging"] > 0


def test_memory_takes_the_whole_dataset(strained):
    shares = check_bound(strained.json(*TRAIN, "--model", "none",
                                       "--strategy", "memory")["report"])
    assert shares["features"] >= FEATURE_BYTES


def test_a_second_job_starts_warm(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    for strategy in ("memory", "mmap", "gnndrive", "ginex", "gids"):
        first = daemon.json(*QUICK, "--strategy", strategy)["report"]
        assert not first["warm_start"]
        second = daemon.json(*QUICK, "--strategy", strategy, "--lr", "0.02")["report"]
        assert second["warm_start"]
        assert second["first_batch_seconds"] > 0
        again = daemon.json(*QUICK, "--strategy", strategy)["report"]
        assert again["warm_start"]
        assert again["loss_digest"] == first["loss_digest"]
    status = daemon.json("status")
    assert status["memory_reserved_bytes"] == 0
    assert 0 < status["memory_warm_bytes"] < status["memory_limit_bytes"]
    assert value(daemon.metrics(), "hearth_memory_reserved_bytes", owner="topology") > 0
    daemon.hearth("dataset", "delete", "planted")
    assert daemon.json("status")["memory_warm_bytes"] == 0


def test_what_can_never_fit_is_refused_with_the_numbers(start_daemon, graph_folder):
    daemon = start_daemon("--memory-limit", "40MiB")
    daemon.import_graph("planted", graph_folder, "--memory-limit", "16MiB")
    refused = daemon.hearth(*QUICK, code=1)
    for part in ("RESOURCE_EXHAUSTED", "40.0 MiB", "memory limit", "model"):
        assert part in refused.err
    large = daemon.hearth("dataset", "import", "again", "--format", "numpy",
                          "--source", str(graph_folder), "--memory-limit", "2GiB", code=1)
    for part in ("RESOURCE_EXHAUSTED", "may take 2.0 GiB", "a smaller --memory-limit fits"):
        assert part in large.err
    assert daemon.is_alive()


def test_jobs_wait_for_each_others_memory(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = (*LONG, "--hidden", "256", "--epochs", "1")  # So wide that it takes most of the memory.
    report = daemon.json(*job)["report"]
    needed = sum(entry["bytes"] for entry in report["memory"])
    daemon.stop()

    daemon = start_daemon("--max-running-jobs", "2", "--memory-limit", str(needed * 3 // 2))
    daemon.import_graph("planted", graph_folder, "--memory-limit", "16MiB")
    running = daemon.json(*job, "--epochs", "100000", "--detach")["id"]
    daemon.wait_for_batches(running, 1)
    waiting = daemon.json(*job, "--detach")["id"]
    daemon.wait_for_state(waiting, "WAITING")
    shown = daemon.json("job", "show", waiting)
    assert shown["waiting_reason"].startswith("memory: the job may need")
    assert shown["waiting_reason"] in daemon.hearth("job", "show", waiting).out
    assert "waiting: memory: " in daemon.hearth("job", "logs", waiting).out
    assert [job["id"] for job in daemon.json("job", "list", "--state", "waiting")["jobs"]] == [
        waiting]
    assert daemon.json("status")["jobs_waiting"] == 1
    # One that waits can be cancelled, too.
    daemon.hearth("job", "cancel", waiting)
    daemon.wait_for_state(waiting, "CANCELLED")
    waiting = daemon.json(*job, "--detach")["id"]
    daemon.wait_for_state(waiting, "WAITING")
    # A smaller one overtakes it.
    daemon.import_graph("again", graph_folder, "--memory-limit", "16MiB")
    assert daemon.state(waiting) == "WAITING"
    daemon.hearth("job", "cancel", running)
    daemon.wait_for_state(waiting, "SUCCEEDED")
    again = daemon.json("job", "show", waiting)["report"]
    assert again["loss_digest"] == report["loss_digest"]


def test_a_full_sweep_leaves_no_scratch_behind(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    daemon.json(*QUICK, "--strategy", "ginex")
    scratch = daemon.data_dir / "scratch"
    assert any(scratch.iterdir()), "the neighbor cache is kept warm"
    daemon.kill()
    daemon.start()
    assert not scratch.exists()
    # The measurements outlive the daemon.
    daemon.json(*QUICK, "--strategy", "gnndrive")
    assert any((daemon.data_dir / "plans").iterdir())


@pytest.fixture(scope="module")
def contained(graph_folder, tmp_path_factory):
    """A daemon that the kernel kills if it takes more than 2 GB, with a job that runs."""
    sys.path.append(str(Path(__file__).parents[1] / "bench"))
    from memory_cgroup import MemoryCgroup, why_no_cgroup

    why = why_no_cgroup()
    if why is not None:
        pytest.skip(f"no memory cgroup can be made here: {why}")
    folder = tmp_path_factory.mktemp("contained")
    with MemoryCgroup(2_000_000_000) as cgroup:
        class Contained(Daemon):
            prefix = tuple(cgroup.command([]))

        with contextlib.closing(Contained(folder / "data", "--max-running-jobs", "2")) as daemon:
            daemon.import_graph("planted", graph_folder)
            daemon.import_graph("small", planted_graph(num_nodes=200).write(folder / "small"))
            running = daemon.json(*ENDLESS, "--detach")["id"]
            daemon.wait_for_state(running, "RUNNING")
            yield daemon
            assert daemon.state(running) == "RUNNING"
            assert cgroup.usage()["out_of_memory_kills"] == 0


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2", "gin", "rgcn", "rsage", "rgat"])
def test_a_model_that_is_too_wide_is_refused_with_the_numbers(contained, model):
    wide = ("--dataset", "small", "--model", model, "--fanouts", "5,5,5", "--hidden", "16384")
    for command in ("train", "train", "explain"):
        refused = contained.json(command, *wide, code=1)["error"]
        assert refused["code"] == 8  # RESOURCE_EXHAUSTED
        assert "--hidden" in refused["message"], refused
        assert "the model's parameters take " in refused["message"], refused
