"""GIDS: the results of `memory`, what its parts save, its plans, and its refusals."""

from __future__ import annotations

import numpy
import pytest

from jobs import LONG, LONG_BATCHES_PER_EPOCH, QUICK

GIDS = (*QUICK, "--strategy", "gids")
# One batch at a time, rows evicted at random: the paper's BaM baseline.
BAM = ("--merge-max", "1", "--cpu-cache", "0", "--window", "0")
NONE = ("--cpu-cache", "0", "--window-cache", "0")
# 3,000 rows of `planted`, of which these hold some.
SOME = ("--cpu-cache", "16KiB", "--window-cache", "32KiB")


@pytest.fixture(scope="module")
def expected(daemon):
    """The digest of training with everything in memory."""
    return daemon.json(*QUICK, "--strategy", "memory")["report"]["loss_digest"]


@pytest.mark.parametrize("options", [
    (), NONE, BAM, SOME,
    (*SOME, "--samplers", "3", "--io-depth", "4", "--window", "2"),
    (*SOME, "--staging", "1KiB"),
    (*SOME, "--hot", "out-degree"),
    (*SOME, "--hot", "frequency"),
    (*SOME, "--hot", "random"),
    ("--cpu-cache", "1GiB", "--window-cache", "1GiB"),
], ids=lambda options: "-".join(options).replace("--", "") or "defaults")
def test_training_is_that_of_memory(daemon, expected, options):
    assert daemon.json(*GIDS, *options)["report"]["loss_digest"] == expected


@pytest.mark.parametrize("model", ["gcn", "gat"])
@pytest.mark.parametrize("options", [("--trainers", "2"), ("--order", "partition", "--parts", "24")],
                         ids=["trainers", "partition"])
def test_shards_and_other_orders_are_those_of_memory(daemon, model, options):
    job = (*QUICK, "--model", model, *options)
    digest = daemon.json(*job, "--strategy", "memory")["report"]["loss_digest"]
    assert daemon.json(*job, "--strategy", "gids", *SOME)["report"]["loss_digest"] == digest


def figures(report):
    """Rows by level of the first epoch, of a strategy that was cold."""
    epoch = report["epochs"][0]
    rows = {level["level"]: level["rows"] for level in epoch["hits"]}
    assert sum(rows.values()) + epoch["rows_read"] == epoch["rows_needed"]
    return rows | {"read": epoch["rows_read"]}


def test_each_part_saves_reads_and_is_shown(daemon):
    cold = ("--batch-size", "61", "--epochs", "1")  # batches that no other test has
    read = {}
    for name, options in (("bam", BAM), ("window", ("--cpu-cache", "0")),
                          ("buffer", ("--window", "0"))):
        job = (*GIDS, *cold, *options, "--window-cache", "32KiB")
        read[name] = figures(daemon.json(*job)["report"])
    assert read["window"]["window_cache"] > read["bam"]["window_cache"] > 0
    assert read["bam"]["constant_buffer"] == 0 < read["buffer"]["constant_buffer"]
    report = daemon.json(*GIDS, *cold, *SOME)["report"]
    assert report["epochs"][0]["overlap"]["mean_merged"] >= 1
    assert report["epochs"][0]["overlap"]["target_reads"] > 0
    text = daemon.metrics()
    for level in ("constant_buffer", "window_cache"):
        assert f'level="{level}"' in text
    assert not daemon.json(*QUICK)["report"]["epochs"][0]["overlap"]


def test_limits_hold_batches_back_and_the_report_says_so(daemon):
    cold = (*GIDS, *NONE, "--batch-size", "7", "--epochs", "1", "--io-depth", "1024")
    by_number = daemon.json(*cold, "--merge-max", "2")["report"]["epochs"][0]["overlap"]
    assert by_number["mean_merged"] <= 2
    assert by_number["held_by_merge_max"] > 0
    by_memory = daemon.json(*cold, "--staging", "1KiB")["report"]["epochs"][0]["overlap"]
    assert by_memory["mean_merged"] == 1
    assert by_memory["held_by_staging"] > 0


def test_hot_nodes_of_a_file(daemon, expected, tmp_path):
    numpy.save(tmp_path / "hot.npy", numpy.arange(100))
    job = (*GIDS, "--cpu-cache", "16KiB", "--hot")
    assert daemon.json(*job, str(tmp_path / "hot.npy"))["report"]["loss_digest"] == expected
    numpy.save(tmp_path / "bad.npy", numpy.array([1, 2, 3000]))
    refused = daemon.hearth(*job, str(tmp_path / "bad.npy"), code=1)
    assert "INVALID_ARGUMENT" in refused.err
    assert "element 2 at byte 144 is 3000" in refused.err
    assert "NOT_FOUND" in daemon.hearth(*job, str(tmp_path / "none.npy"), code=1).err


@pytest.mark.parametrize("option, words", [
    (("--hot", "warm"), "reverse-pagerank, out-degree, frequency, random or an absolute path"),
    (("--merge-max", "0"), "--merge-max"),
    (("--window", "5000"), "--window"),
    (("--extractors", "3"), "--extractors"),
    (("--superbatch", "3"), "--superbatch"),
])
def test_bad_options_are_refused_by_name(daemon, option, words):
    refused = daemon.hearth(*GIDS, *option, code=None)
    assert refused.code in (1, 2)
    assert option[0] in refused.err
    assert words in refused.err


def test_scores_are_a_plan_that_jobs_share(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = (*GIDS, *SOME)
    told = daemon.json("explain", *job[1:])["report"]
    assert not told["plan_exists"]
    made = daemon.json("prepare", *job[1:])["report"]["preparation"]
    assert not made["reused"]
    assert made["plan"] == told["plan"]
    assert [plan["name"] for plan in daemon.json("plan", "list")["plans"]] == [told["plan"]]
    assert daemon.json("explain", *job[1:])["report"]["plan_exists"]
    # Another size of the buffer, and other batches, have the same scores.
    daemon.json(*job, "--cpu-cache", "32KiB", "--batch-size", "50")
    assert len(daemon.json("plan", "list")["plans"]) == 1


def test_what_it_reads_is_explained(daemon):
    job = (*GIDS, *SOME, "--batch-size", "47", "--epochs", "1")
    told = daemon.json("explain", *job[1:])["report"]
    epoch = daemon.json(*job)["report"]["epochs"][0]
    assert told["rows_needed"] == epoch["rows_needed"]
    assert {level["level"]: level["rows"] for level in told["levels"]} \
        == {level["level"]: level["rows"] for level in epoch["hits"]}
    assert told["read_ops"] == epoch["read_ops"]
    assert told["bytes_read"] == epoch["bytes_read"]
    assert told["epoch_seconds"] > 0


def test_kill_9_goes_on_from_the_checkpoint(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    expected = daemon.json(*LONG, "--epochs", "2")["report"]["loss_digest"]
    watching = daemon.begin(*LONG, "--epochs", "2", "--strategy", "gids", *SOME,
                            "--checkpoint-every", "5")
    job = watching.stderr.readline().strip()
    daemon.wait_for_batches(job, LONG_BATCHES_PER_EPOCH // 2)
    daemon.kill()
    daemon.start()
    watching.communicate()
    report = daemon.json("job", "show", job)["report"]
    assert report["resumes"] == 1
    assert report["loss_digest"] == expected


def test_a_cancelled_job_leaves_the_daemon_well(daemon, expected):
    for batches in (0, 1, 20):
        job = daemon.json(*LONG, "--strategy", "gids", *SOME, "--detach")["id"]
        daemon.wait_for_batches(job, batches)
        daemon.hearth("job", "cancel", job)
        daemon.wait_for_state(job, "CANCELLED")
        assert daemon.json(*GIDS, *SOME)["report"]["loss_digest"] == expected
