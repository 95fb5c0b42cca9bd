"""Rows of bf16 and int8: one result in all strategies, fewer bytes read, and a copy that is made once,
goes with its dataset, and that kills and damage do not spoil."""

from __future__ import annotations

import time

import numpy
import pytest

from graphs import planted_graph
from jobs import LONG, LONG_BATCHES_PER_EPOCH, QUICK

TYPES = ("bf16", "int8")
# 3,000 rows of `planted`, of 128 bytes as float32; these hold some.
STRATEGIES = (
    ("mmap",),
    ("gnndrive", "--cpu-cache", "16KiB", "--samplers", "2", "--extractors", "2"),
    ("ginex", "--cpu-cache", "16KiB", "--superbatch", "7"),
    ("diskgnn", "--cpu-cache", "16KiB"),
    ("gids", "--cpu-cache", "8KiB", "--window-cache", "8KiB"),
)


def copies(daemon) -> list[dict]:
    """The plans that are copies of rows."""
    plans = daemon.json("plan", "list").get("plans", [])
    return [plan for plan in plans if plan["name"].startswith("rows-")]


@pytest.fixture(scope="module")
def reports(daemon):
    """The reports of training with everything in memory, by type; None: as stored."""
    return {kind: daemon.json(*QUICK, *(("--row-dtype", kind) if kind else ()))["report"]
            for kind in (None, *TYPES)}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy[0])
def test_every_strategy_gives_the_digest_of_memory(daemon, reports, strategy, kind):
    report = daemon.json(*QUICK, "--strategy", *strategy, "--row-dtype", kind)["report"]
    assert report["loss_digest"] == reports[kind]["loss_digest"]
    assert not report["exact"] and report["row_dtype"] == kind


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("options", [("--trainers", "2"), ("--order", "partition", "--parts", "24"),
                                     ("--history", "on", "--history-cache", "64KiB")],
                         ids=lambda options: options[0][2:])
def test_shards_orders_and_histories_are_those_of_mmap(daemon, kind, options):
    job = (*QUICK, "--row-dtype", kind, *options)
    digest = daemon.json(*job, "--strategy", "mmap")["report"]["loss_digest"]
    report = daemon.json(*job, "--strategy", "gnndrive", "--cpu-cache", "16KiB")["report"]
    assert report["loss_digest"] == digest


def test_rounding_is_told_and_small(daemon, reports):
    stored = reports[None]
    assert stored["exact"] and not stored.get("row_dtype")
    for kind in TYPES:
        report = reports[kind]
        assert report["loss_digest"] != stored["loss_digest"]
        assert report["epochs"][0]["loss"] == pytest.approx(stored["epochs"][0]["loss"], rel=0.05)
        shown = daemon.hearth(*QUICK, "--row-dtype", kind).out
        assert f"exact: no (feature rows are rounded to {kind})" in shown
    assert daemon.json(*QUICK, "--row-dtype", "stored")["report"]["loss_digest"] == \
        stored["loss_digest"]
    refused = daemon.hearth(*QUICK, "--row-dtype", "fp8", code=2)
    assert "--row-dtype" in refused.err and "int8" in refused.err


def test_heterographs_have_rows_of_all_types_rounded(start_daemon, typed_folder):
    daemon = start_daemon()
    daemon.json("dataset", "import", "planted", "--source", str(typed_folder))
    for kind in TYPES:
        job = (*QUICK, "--model", "rsage", "--row-dtype", kind)
        expected = daemon.json(*job)["report"]
        assert not expected["exact"]
        for strategy in STRATEGIES[1:]:
            report = daemon.json(*job, "--strategy", *strategy)["report"]
            assert report["loss_digest"] == expected["loss_digest"], strategy


def test_a_half_and_a_quarter_of_the_bytes_are_read(start_daemon, tmp_path):
    # Rows of 64 KiB, as float32: of whole pages, as almost all reads are.
    folder = planted_graph(num_nodes=500, dim=16384, seed=4).write(tmp_path / "wide")
    daemon = start_daemon()
    daemon.import_graph("wide", folder)
    job = ("train", "--dataset", "wide", "--model", "none", "--fanouts", "3", "--batch-size", "50",
           "--epochs", "1", "--seed", "1")
    for strategy in (("gnndrive", "--cpu-cache", "1MiB"), ("ginex", "--cpu-cache", "1MiB"),
                     ("diskgnn", "--cpu-cache", "1MiB"), ("gids", "--cpu-cache", "0",
                                                          "--window-cache", "0")):
        read = {}
        for kind in ("stored", *TYPES):
            # The same share of the rows in caches.
            share = {"stored": "1MiB", "bf16": "512KiB", "int8": "256KiB"}[kind]
            words = [share if word == "1MiB" else word for word in strategy]
            report = daemon.json(*job, "--strategy", *words, "--row-dtype", kind)["report"]
            read[kind] = int(report["epochs"][0]["bytes_read"])
        assert read["bf16"] == pytest.approx(read["stored"] / 2, rel=0.05), (strategy, read)
        # A row and its scale begin and end within pages.
        assert 0.24 < read["int8"] / read["stored"] < 0.36, (strategy, read)
    # The copies themselves.
    sizes = {plan["name"].rsplit("-")[-1]: int(plan["size_bytes"]) for plan in copies(daemon)}
    whole = 500 * 16384 * 4
    assert sizes["bf16"] == pytest.approx(whole / 2, rel=0.01)
    assert sizes["int8"] == pytest.approx(whole / 4, rel=0.01)


def test_the_copy_is_found_again_and_goes_with_its_dataset(start_daemon, graph_folder, reports):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = (*QUICK, "--row-dtype", "int8")
    told = daemon.json("explain", *job[1:])["report"]
    assert int(told["bytes_needed"]) == 36 * int(told["rows_needed"])
    assert not copies(daemon)
    daemon.hearth("prepare", "--dataset", "planted", "--row-dtype", "int8")
    plan, = copies(daemon)
    assert plan["state"] == "WHOLE" and plan["datasets"] == ["planted"] and not plan["in_use"]
    assert {"name": "rows", "value": "int8"} in plan["properties"]
    daemon.stop()
    daemon.start()
    done = daemon.json(*job)
    daemon.wait_for_log(done["id"], f"rows {plan['name']} reused: 36 bytes a row")
    assert done["report"]["loss_digest"] == reports["int8"]["loss_digest"]
    daemon.hearth("dataset", "delete", "planted")
    assert not copies(daemon)


def test_a_damaged_copy_is_named_and_made_anew(start_daemon, graph_folder, reports):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = (*QUICK, "--row-dtype", "bf16", "--strategy", "gnndrive", "--cpu-cache", "16KiB")
    assert daemon.json(*job)["report"]["loss_digest"] == reports["bf16"]["loss_digest"]
    file = daemon.data_dir / "plans" / copies(daemon)[0]["name"] / "0.bf16.npy"
    daemon.stop()
    data = bytearray(file.read_bytes())
    data[4096::64] = bytes(byte ^ 1 for byte in data[4096::64])
    file.write_bytes(data)
    daemon.start()
    failed = daemon.hearth(*job, code=None)
    assert failed.code != 0
    assert "DATA_LOSS" in failed.err and str(file) in failed.err, failed.err
    assert copies(daemon)[0]["state"] == "DAMAGED"
    assert daemon.json(*job)["report"]["loss_digest"] == reports["bf16"]["loss_digest"]
    assert copies(daemon)[0]["state"] == "WHOLE"


def test_values_that_int8_cannot_hold_are_named(start_daemon, tmp_path):
    graph = planted_graph(num_nodes=300)
    graph.node_feat[17, 3] = numpy.nan
    daemon = start_daemon()
    daemon.import_graph("planted", graph.write(tmp_path / "nan"), "--non-finite", "keep")
    job = (*QUICK, "--model", "none")
    failed = daemon.hearth(*job, "--row-dtype", "int8", code=None)
    assert failed.code != 0 and "INVALID_ARGUMENT" in failed.err
    assert "column 3 of the features of node 17" in failed.err
    assert not [plan for plan in copies(daemon) if plan["state"] == "WHOLE"]
    assert daemon.json(*job, "--row-dtype", "bf16")["report"]["row_dtype"] == "bf16"


def test_a_kill_while_the_copy_is_made_changes_nothing(start_daemon, other_folder):
    daemon = start_daemon()
    daemon.import_graph("large", other_folder)
    job = ("train", "--dataset", "large", "--model", "sage", "--fanouts", "2,2", "--hidden", "8",
           "--batch-size", "2000", "--epochs", "1", "--seed", "3", "--row-dtype", "int8")
    expected = daemon.json(*job)["report"]["loss_digest"]
    for milliseconds in (0, 20, 60, 120):
        daemon.hearth("plan", "delete", copies(daemon)[0]["name"])
        number = daemon.json(*job, "--detach")["id"]
        time.sleep(milliseconds / 1000)
        daemon.kill()
        daemon.start()
        assert daemon.json("job", "watch", number)["report"]["loss_digest"] == expected
        assert copies(daemon)[0]["state"] == "WHOLE"


def test_a_killed_job_goes_on_with_its_rows(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = (*LONG, "--epochs", "3", "--row-dtype", "int8")
    expected = daemon.json(*job)["report"]["loss_digest"]
    number = daemon.json(*job, "--checkpoint-every", "10", "--detach")["id"]
    daemon.wait_for_batches(number, LONG_BATCHES_PER_EPOCH + 10)
    daemon.kill()
    daemon.start()
    report = daemon.json("job", "watch", number)["report"]
    assert (report["resumes"], report["loss_digest"]) == (1, expected)
