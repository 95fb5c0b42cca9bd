"""Strategies that read rows from disk: the results of `memory`, within their budgets."""

from __future__ import annotations

import contextlib
import os

import pytest

from daemon import Daemon
from jobs import LONG, LONG_BATCHES_PER_EPOCH, QUICK
from test_metrics import value

# `planted` has 3,000 rows; these budgets hold none, some and all of them.
BUDGETS = ["0", "64KiB", "1GiB"]
GNNDRIVE = ("--strategy", "gnndrive")
GINEX = ("--strategy", "ginex")


@pytest.fixture(scope="module", params=["sage", "gcn", "gat"])
def expected(request, daemon):
    """A model and the digest of training it with everything in memory."""
    report = daemon.json(*QUICK, "--model", request.param, "--strategy", "memory")["report"]
    return request.param, report["loss_digest"]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("strategy", [
    GNNDRIVE,
    (*GNNDRIVE, "--samplers", "3", "--extractors", "3", "--io-depth", "4"),
    (*GNNDRIVE, "--buffered-reads", "true"),
    GINEX,
    (*GINEX, "--superbatch", "7", "--samplers", "2"),
    (*GINEX, "--superbatch", "1000000", "--neighbor-cache", "16KiB"),
], ids=lambda strategy: "-".join(strategy[1:]).replace("--", ""))
def test_training_is_that_of_memory(daemon, expected, strategy, budget):
    model, digest = expected
    report = daemon.json(*QUICK, "--model", model, *strategy, "--cpu-cache", budget)["report"]
    assert report["loss_digest"] == digest


@pytest.mark.parametrize("strategy", [GNNDRIVE, GINEX], ids=["gnndrive", "ginex"])
def test_every_row_is_a_hit_or_was_read(daemon, strategy):
    # With batches that no other test has, so that it starts cold, and few of them in flight.
    job = daemon.json(*QUICK, *strategy, "--cpu-cache", "64KiB", "--batch-size", "61",
                      "--extractors", "1")
    report = job["report"]
    passes = [part for epoch in report["epochs"] for part in (epoch, epoch["validation"])]
    passes.append(report["test"])
    for part in passes:
        assert sum(level["rows"] for level in part["hits"]) + part["rows_read"] \
            == part["rows_needed"]
        assert part["bytes_read"] > 0 and part["read_ops"] > 0
        assert part["io_wait_seconds"] >= 0
    text = daemon.metrics()
    for series, figure in (("hearth_feature_rows_needed_total", "rows_needed"),
                           ("hearth_feature_needed_bytes_total", "bytes_needed"),
                           ("hearth_feature_read_bytes_total", "bytes_read"),
                           ("hearth_feature_read_operations_total", "read_ops"),
                           ("hearth_io_wait_seconds_total", "io_wait_seconds")):
        assert value(text, series, job=job["id"]) == pytest.approx(
            sum(part[figure] for part in passes)), series
    hits = sum(level["rows"] for part in passes for level in part["hits"])
    assert value(text, "hearth_cache_hits_total", job=job["id"], level="cpu_cache") == hits
    assert value(text, "hearth_cache_misses_total", job=job["id"], level="cpu_cache") \
        == sum(part["rows_needed"] for part in passes) - hits
    for stage in report["epochs"][0]["stages"]:
        busy = sum(entry["busy_seconds"] for part in passes for entry in part["stages"]
                   if entry["name"] == stage["name"])
        assert value(text, "hearth_stage_busy_seconds_total", job=job["id"],
                     stage=stage["name"]) == pytest.approx(busy)
    assert value(text, "hearth_read_operations_total", result="ok") > 0
    assert value(text, "hearth_reads_in_flight") == 0


def test_ginex_tells_where_its_time_went(daemon):
    report = daemon.json(*QUICK, *GINEX, "--superbatch", "10")["report"]
    phases = {phase["name"] for phase in report["epochs"][0]["phases"]}
    assert {"inspect", "switch", "cache_update", "execute"} <= phases


def test_a_larger_cache_reads_less(daemon):
    for strategy in (GNNDRIVE, GINEX):
        # Cold, too.
        read = [daemon.json(*QUICK, "--model", "none", *strategy, "--batch-size", "59",
                            "--epochs", "1", "--extractors", "1", "--cpu-cache",
                            budget)["report"]["epochs"][-1]["rows_read"] for budget in BUDGETS]
        assert read == sorted(read, reverse=True)
        assert read[0] > read[-1]


def test_reordered_batches_train_as_well(daemon):
    report = daemon.json(*QUICK, *GNNDRIVE, "--reorder", "true", "--samplers", "2",
                         "--extractors", "2")["report"]
    assert report["test_metric"] > 0.5
    assert all(epoch["batches"] == report["epochs"][0]["batches"] for epoch in report["epochs"])


def test_staging_that_holds_no_batch_is_refused_with_the_numbers(daemon):
    refused = daemon.hearth(*QUICK, *GNNDRIVE, "--staging", "4KiB", code=1)
    assert "RESOURCE_EXHAUSTED" in refused.err
    assert "--staging of 4.0 KiB" in refused.err


def test_options_of_other_strategies_are_refused(daemon):
    for option in (("--superbatch", "3"), ("--cpu-cache", "1GiB"), ("--reorder", "true")):
        refused = daemon.hearth(*QUICK, "--strategy", "mmap", *option, code=2)
        assert option[0] in refused.err


def test_show_prints_the_options(daemon):
    first = daemon.json(*QUICK, *GNNDRIVE, "--cpu-cache", "96KiB", "--train-queue", "2")
    shown = daemon.hearth("job", "show", first["id"]).out
    for word in ("gnndrive", "96KiB", "train-queue"):
        assert word in shown


def test_status_tells_how_files_are_read(daemon):
    assert daemon.json("status")["read_queues"] in ("io_uring", "threads")


@pytest.mark.parametrize("strategy", [GNNDRIVE, GINEX], ids=["gnndrive", "ginex"])
def test_a_cancelled_job_leaves_the_daemon_well(daemon, strategy):
    expected = daemon.json(*QUICK)["report"]["loss_digest"]
    for batches in (0, 1, 20):
        job = daemon.json(*LONG, *strategy, "--detach")["id"]
        daemon.wait_for_batches(job, batches)
        daemon.hearth("job", "cancel", job)
        daemon.wait_for_state(job, "CANCELLED")
        assert daemon.json(*QUICK, *strategy)["report"]["loss_digest"] == expected


@pytest.mark.parametrize("strategy", [GNNDRIVE, (*GINEX, "--superbatch", "9")],
                         ids=["gnndrive", "ginex"])
def test_kill_9_goes_on_from_the_checkpoint(start_daemon, graph_folder, strategy):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job_of_memory = daemon.json(*LONG, "--epochs", "2")
    watching = daemon.begin(*LONG, "--epochs", "2", *strategy, "--cpu-cache", "64KiB",
                            "--checkpoint-every", "5")
    job = watching.stderr.readline().strip()
    daemon.wait_for_batches(job, LONG_BATCHES_PER_EPOCH // 2)
    daemon.kill()
    daemon.start()
    watching.communicate()
    report = daemon.json("job", "show", job)["report"]
    assert report["resumes"] == 1
    assert report["loss_digest"] == job_of_memory["report"]["loss_digest"]
    for epoch in report["epochs"]:
        assert sum(level["rows"] for level in epoch["hits"]) + epoch["rows_read"] \
            == epoch["rows_needed"]


def test_reordered_epochs_are_done_again_whole(start_daemon, graph_folder):
    """Batches of a reordered epoch are no beginning of it: a kill goes back to its start."""
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    watching = daemon.begin(*LONG, "--epochs", "2", *GNNDRIVE, "--reorder", "true",
                            "--checkpoint-every", "5")
    job = watching.stderr.readline().strip()
    daemon.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 10)
    daemon.kill()
    daemon.start()
    watching.communicate()
    report = daemon.json("job", "show", job)["report"]
    assert report["resumes"] == 1
    assert [epoch["batches"] for epoch in report["epochs"]] == [LONG_BATCHES_PER_EPOCH] * 2


class LittleLockedMemory(Daemon):
    """May lock 64 KiB, as in Docker under older versions of systemd: without the capability of
    root's processes to lock all they want."""
    prefix = ("prlimit", "--memlock=65536:65536",
              *(("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock")
                if os.geteuid() == 0 else ()))


@pytest.fixture(scope="module")
def little(graph_folder, tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("little") / "data"
    with contextlib.closing(LittleLockedMemory(data_dir)) as daemon:
        daemon.import_graph("planted", graph_folder)
        yield daemon


# An order for outre, whose own one no other strategy has.
PARTS = ("--order", "partition", "--parts", "12")


@pytest.mark.parametrize("strategy", [
    ("gnndrive",), ("ginex",), ("outre", *PARTS), ("diskgnn", "--disk-limit", "40x"), ("gids",),
], ids=lambda strategy: strategy[0])
def test_deep_queues_need_no_locked_memory(little, strategy):
    order = PARTS if "outre" in strategy else ()
    train = (*QUICK, "--epochs", "3")  # With fewer, diskgnn has too few rows on disk for many reads.
    digest = little.json(*train, *order, "--strategy", "memory")["report"]["loss_digest"]
    job = little.json(*train, "--strategy", *strategy, "--io-depth", "4096", "--cpu-cache",
                      "16KiB")
    assert job["report"]["loss_digest"] == digest
    if "hearth_reads_in_flight{queue=\"io_uring\"}" not in little.metrics():
        pytest.skip("no io_uring here")
    logged = little.hearth("job", "logs", job["id"]).out
    assert "no ring for 4096 reads at once" in logged and "hearth doctor" in logged
    assert value(little.metrics(), "hearth_read_queues_reduced_total") > 0


def test_the_doctor_tells_what_little_locked_memory_costs(little):
    found = {one["check"]: one for one in little.hearth("doctor", "--output", "json",
                                                        code=None).json["findings"]}
    locked = found["locked memory"]
    assert locked["severity"] == "note"
    assert "hearthd may lock 64.0 KiB" in locked["value"]
    assert "reads at once" in locked["value"] and "--ulimit memlock=-1" in locked["remedy"]
    assert "random reads" in found
