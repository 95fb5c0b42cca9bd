"""DiskGNN: plans are made once, and training from them is that of `memory`."""

from __future__ import annotations

import pytest

from jobs import LONG, LONG_BATCHES_PER_EPOCH, QUICK

DISKGNN = ("--strategy", "diskgnn")


def plans(daemon):
    return sorted((daemon.data_dir / "plans").glob("diskgnn-*"))


@pytest.fixture(scope="module", params=["sage", "gcn", "gat"])
def expected(request, daemon):
    """A model and the digest of training it with everything in memory."""
    report = daemon.json(*QUICK, "--model", request.param, "--strategy", "memory")["report"]
    return request.param, report["loss_digest"]


@pytest.mark.parametrize("options", [
    ("--cpu-cache", "1GiB"),
    ("--cpu-cache", "0"),
    ("--cpu-cache", "0", "--disk-cache", "0"),
    ("--cpu-cache", "16KiB", "--disk-cache", "8KiB", "--extractors", "2"),
    ("--cpu-cache", "16KiB", "--disk-limit", "40x"),
], ids=lambda options: "-".join(options).replace("--", ""))
def test_training_is_that_of_memory(daemon, expected, options):
    model, digest = expected
    report = daemon.json(*QUICK, "--model", model, *DISKGNN, *options)["report"]
    assert report["loss_digest"] == digest
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    for part in (*report["epochs"], report["test"]):
        assert sum(level["rows"] for level in part["hits"]) + part["rows_read"] \
            == part["rows_needed"]


@pytest.mark.parametrize("cache, place", [
    # Each has a plan of its own to make.
    ("20KiB", "memory"), ("21KiB", "mapped"), ("22KiB", "slabs"),
])
def test_training_is_that_of_memory_wherever_the_topology_is(daemon, cache, place):
    expected = daemon.json(*QUICK, "--strategy", "memory")["report"]
    job = daemon.json(*QUICK, *DISKGNN, "--cpu-cache", cache, "--topology", place)
    assert job["report"]["loss_digest"] == expected["loss_digest"]
    assert job["report"]["peak_memory_bytes"] <= job["report"]["memory_bound_bytes"]
    assert ("slab by slab" in daemon.hearth("job", "logs", job["id"]).out) == (place == "slabs")


def test_slabs_are_for_sampling_beforehand(daemon):
    refused = daemon.hearth(*QUICK, "--strategy", "gnndrive", "--topology", "slabs", code=2)
    assert "--topology: must be auto, memory or mapped for strategy gnndrive" in refused.err
    refused = daemon.hearth(*QUICK, "--strategy", "ginex", "--topology", "memory", code=2)
    assert "topology" in refused.err and "ginex" in refused.err


@pytest.mark.parametrize("distinct", ["1", "2"])
def test_repeated_epochs_are_sampled_once(daemon, distinct):
    digests = {daemon.json(*QUICK, "--distinct-epochs", distinct, "--strategy",
                           strategy)["report"]["loss_digest"] for strategy in ("memory", "diskgnn")}
    assert len(digests) == 1


def test_a_plan_serves_every_job_with_the_same_batches(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    first = daemon.json(*QUICK, *DISKGNN, "--cpu-cache", "16KiB")
    log = daemon.hearth("job", "logs", first["id"]).out
    assert "sampled in" in log and " made, " in log
    assert len(plans(daemon)) == 1
    daemon.stop()
    daemon.start()
    second = daemon.json(*QUICK, *DISKGNN, "--cpu-cache", "16KiB", "--lr", "0.02")
    log = daemon.hearth("job", "logs", second["id"]).out
    assert "reused" in log and "sampled in" not in log
    assert len(plans(daemon)) == 1
    other = daemon.json(*QUICK, *DISKGNN, "--cpu-cache", "16KiB", "--data-seed", "9")
    assert other["state"] == "SUCCEEDED"
    assert len(plans(daemon)) == 2
    daemon.hearth("dataset", "delete", "planted")
    assert not plans(daemon)


def test_a_limit_that_no_plan_keeps_is_refused(daemon):
    refused = daemon.hearth(*QUICK, *DISKGNN, "--cpu-cache", "0", "--disk-limit", "4KiB", code=1)
    assert "RESOURCE_EXHAUSTED" in refused.err
    for option in (("--staging", "1MiB"), ("--superbatch", "3")):
        daemon.hearth(*QUICK, *DISKGNN, *option, code=2)
    refused = daemon.hearth(*QUICK, *DISKGNN, "--gpu-cache", "1GiB", code=2)
    assert "--gpu-cache: must be 0" in refused.err


def test_a_damaged_plan_is_named_and_made_anew(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = (*QUICK, *DISKGNN, "--cpu-cache", "0")
    digest = daemon.json(*job)["report"]["loss_digest"]
    packs = plans(daemon)[0] / "packs"
    data = bytearray(packs.read_bytes())
    data[len(data) // 2] ^= 1
    daemon.stop()
    packs.write_bytes(data)
    daemon.start()
    refused = daemon.hearth(*job, code=1)
    assert "DATA_LOSS" in refused.err and str(packs) in refused.err
    again = daemon.json(*job)
    assert again["report"]["loss_digest"] == digest
    assert "made again" in daemon.hearth("job", "logs", again["id"]).out


def test_kill_9_while_preparing_and_training(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    expected = daemon.json(*LONG, "--epochs", "2")["report"]["loss_digest"]
    watching = daemon.begin(*LONG, "--epochs", "2", *DISKGNN, "--cpu-cache", "16KiB",
                            "--checkpoint-every", "5")
    job = watching.stderr.readline().strip()
    daemon.wait_for_state(job, "PREPARING", "RUNNING")
    daemon.kill()
    daemon.start()
    daemon.wait_for_batches(job, LONG_BATCHES_PER_EPOCH // 2)
    daemon.kill()
    daemon.start()
    watching.communicate()
    daemon.wait_for_state(job, "SUCCEEDED")
    assert daemon.json("job", "show", job)["report"]["loss_digest"] == expected
    assert len(plans(daemon)) == 1
