"""Batches in the order of a partition: made once, found by every job, the same for all strategies."""

from __future__ import annotations

import random
import shutil
import time

import pytest

from daemon import PATIENCE_SECONDS, TIRELESS
from jobs import ENDLESS, LONG, QUICK
from stored import digests
from test_import_kills import GIB, peak_during
from test_metrics import value

PARTITION = ("--order", "partition", "--parts", "24", "--macro-batch-parts", "5")


def prepare(*options):
    return ("prepare", *QUICK[1:], *options)


def partitions(daemon):
    return [plan["name"] for plan in daemon.json("plan", "list")["plans"]
            if plan["strategy"] == "partition"]


@pytest.fixture(scope="module")
def expected(daemon):
    """The digest of training in partition order with everything in memory."""
    report = daemon.json(*QUICK, *PARTITION, "--strategy", "memory")["report"]
    return report["loss_digest"]


@pytest.mark.parametrize("strategy", [
    ("mmap",), ("gnndrive", "--cpu-cache", "16KiB"), ("ginex", "--cpu-cache", "16KiB"),
    ("ginex", "--cpu-cache", "64KiB", "--neighbor-rank", "cross"),
    ("diskgnn", "--cpu-cache", "16KiB"), ("outre", "--cpu-cache", "16KiB"),
    ("outre", "--cpu-cache", "64KiB", "--neighbor-cache", "1MiB", "--superbatch", "7"),
    ("outre", "--cpu-cache", "1MiB", "--samplers", "3", "--extractors", "2"),
    ("gids", "--cpu-cache", "16KiB", "--window-cache", "16KiB"),
], ids=lambda strategy: "-".join(strategy).replace("--", ""))
def test_every_strategy_trains_as_memory_does(daemon, expected, strategy):
    report = daemon.json(*QUICK, *PARTITION, "--strategy", *strategy)["report"]
    assert report["loss_digest"] == expected
    assert report["partition"]["reused"]
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]


def test_outre_finds_lists_in_two_neighbor_caches(daemon):
    # Macro batches of one part: room for those of a batch, and for a few other lists.
    order = (*PARTITION[:4], "--macro-batch-parts", "1")
    expected = daemon.json(*QUICK, *order, "--strategy", "memory")["report"]
    job = daemon.json(*QUICK, *order, "--strategy", "outre", "--cpu-cache", "64KiB",
                      "--neighbor-cache", "100KiB")
    report = job["report"]
    assert report["loss_digest"] == expected["loss_digest"]
    log = daemon.hearth("job", "logs", job["id"]).out
    assert "the dynamic neighbor cache takes at most" in log
    evaluated = [epoch["validation"] for epoch in report["epochs"]] + [report["test"]]
    total = {"neighbor_cache": 0, "dynamic_neighbor_cache": 0}
    for part in (*report["epochs"], *evaluated):
        assert [level["level"] for level in part["list_hits"]] == list(total)
        for level in part["list_hits"]:
            total[level["level"]] += level["lists"]
        assert part["lists_read"] > 0 and part["list_hits"][0]["lists"] > 0
        assert (part["list_hits"][1]["lists"] > 0) == (part not in evaluated)
    text = daemon.metrics()
    for level, lists in total.items():
        assert value(text, "hearth_neighbor_cache_hits_total", job=job["id"], level=level) == lists
    assert value(text, "hearth_neighbor_cache_misses_total", job=job["id"],
                 level="dynamic_neighbor_cache") \
        == sum(part["lists_read"] for part in (*report["epochs"], *evaluated))
    # Without room for macro batches there is but one.
    small = daemon.json(*QUICK, *order, "--strategy", "outre", "--cpu-cache", "64KiB",
                        "--neighbor-cache", "40KiB")
    assert small["report"]["loss_digest"] == expected["loss_digest"]
    assert "no dynamic neighbor cache" in daemon.hearth("job", "logs", small["id"]).out


@pytest.mark.parametrize("strategy", ["ginex", "outre"])
def test_strategies_with_superbatches_are_explained(daemon, strategy):
    job = (*QUICK[1:], *PARTITION, "--strategy", strategy, "--cpu-cache", "16KiB")
    report = daemon.json("explain", *job)["report"]
    trained = daemon.json("train", *job)["report"]["epochs"][0]
    for figure in ("rows_needed", "bytes_read", "read_ops"):
        assert report[figure] == trained[figure]
    assert report["levels"] == [{**report["levels"][0], "level": "cpu_cache",
                                 "rows": trained["hits"][0]["rows"]}]
    assert report["epoch_seconds"] > 0
    assert any("neighbor lists drawn from" in note for note in report["notes"])
    assert any("dynamic neighbor cache" in note for note in report["notes"]) \
        == (strategy == "outre")


def test_outre_orders_by_a_partition_unless_told_otherwise(daemon):
    job = daemon.json(*QUICK, "--strategy", "outre")
    assert job["report"]["partition"]["plan"].startswith("partition-")
    refused = daemon.hearth(*QUICK, "--strategy", "outre", "--order", "shuffled", code=2)
    assert "--order: must be partition" in refused.err
    refused = daemon.hearth(*QUICK, "--strategy", "ginex", "--neighbor-rank", "cross", code=2)
    assert "--neighbor-rank: must be ratio" in refused.err


def test_it_is_prepared_listed_shown_and_found(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = daemon.json(*prepare("--partition", *PARTITION[2:]))
    made = job["report"]["partition"]
    assert not made["reused"] and made["disk_bytes"] > 0 and "24 parts of" in made["reason"]
    assert not job["report"].get("preparation")
    assert job["report"]["peak_memory_bytes"] <= job["report"]["memory_bound_bytes"]
    assert partitions(daemon) == [made["plan"]]
    plan = daemon.json("plan", "show", made["plan"])
    assert plan["state"] == "WHOLE" and plan["datasets"] == ["planted"]
    assert plan["size_bytes"] <= made["disk_bytes"]
    facts = {fact["name"]: fact["value"] for fact in plan["properties"]}
    assert facts["parts"] == "24" and "%" in facts["edges cut"]
    shown = daemon.hearth("dataset", "show", "planted").out
    assert made["plan"] in shown and "edges cut" in shown and "training nodes of a part" in shown
    dataset = daemon.json("dataset", "show", "planted")
    assert [partition["name"] for partition in dataset["partitions"]] == [made["plan"]]
    # Jobs find it, whatever their batch size, since the number of parts is given.
    report = daemon.json(*QUICK, *PARTITION, "--batch-size", "32")["report"]
    assert report["partition"]["reused"] and report["partition"]["plan"] == made["plan"]
    assert "made in" in daemon.hearth("job", "show", job["id"]).out
    # Other parts, rounds or membership are another one.
    for other in (("--parts", "7"), ("--partition-rounds", "3"), ("--membership", "bloom")):
        daemon.json(*prepare("--partition", *PARTITION[2:], *other))
    assert len(partitions(daemon)) == 4
    daemon.hearth("dataset", "delete", "planted")
    assert partitions(daemon) == []


@pytest.mark.full("sizes")
def test_500_million_edges_are_partitioned_within_1_gib(start_daemon, tell):
    daemon = start_daemon()
    if shutil.disk_usage(daemon.data_dir).free < 24 * GIB:
        pytest.skip("needs 24 GiB of disk")
    daemon.hearth("dataset", "generate", "huge", "--graph", "rmat", "--nodes", "30000000",
                  "--edges", "500000000", "--dim", "4", "--train", "0.01",
                  patience=20 * PATIENCE_SECONDS)
    peak = peak_during(daemon, "prepare", "--dataset", "huge", "--partition")
    assert peak < GIB
    name = next(job["id"] for job in daemon.json("job", "list")["jobs"]
                if job["id"].startswith("prepare"))
    job = daemon.json("job", "show", name)
    made = job["report"]["partition"]
    assert job["report"]["memory_bound_bytes"] >= peak and made["disk_bytes"] > 2 * 10**9
    tell(f"{made['reason']}: {made['seconds']:.0f} s, at most {peak / 2**20:.0f} MiB")


def test_the_plan_of_the_strategy_is_made_too(daemon):
    report = daemon.json(*prepare(*PARTITION, "--strategy", "diskgnn"))["report"]
    assert report["partition"]["plan"].startswith("partition-")
    assert report["preparation"]["plan"].startswith("diskgnn-")


def test_a_single_part_is_the_random_order(daemon):
    shuffled = daemon.json(*QUICK)["report"]["loss_digest"]
    one = daemon.json(*QUICK, "--order", "partition", "--parts", "1")["report"]
    assert one["loss_digest"] == shuffled and "0.0% of" in one["partition"]["reason"]
    assert daemon.json(*QUICK, *PARTITION)["report"]["loss_digest"] != shuffled


@pytest.mark.parametrize("options, words", [
    (("--parts", "7"), "--parts: "),
    (("--order", "partition", "--parts", "65536"), "a whole number from 1 to 65535"),
    (("--order", "partition", "--parts", "60000"), "parts"),
    (("--order", "partition", "--membership", "bloom", "--partition-rounds", "2"),
     "--partition-rounds: must be 1"),
    (("--order", "parts"), "--order"),
], ids=lambda value: "" if isinstance(value, str) else "-".join(value).replace("--", ""))
def test_what_makes_no_sense_is_refused(daemon, options, words):
    refused = daemon.hearth(*QUICK, *options, code=None)
    assert refused.code in (1, 2) and words in refused.err


def test_there_is_something_to_prepare_or_it_is_refused(daemon):
    refused = daemon.hearth(*prepare("--partition", "--order", "shuffled"), code=2)
    assert "--order: must be partition" in refused.err


def test_explain_counts_in_its_order(daemon):
    shuffled = daemon.json("explain", *QUICK[1:])["report"]
    ordered = daemon.json("explain", *QUICK[1:], *PARTITION)["report"]
    assert ordered["batches"] == shuffled["batches"]
    assert ordered["rows_needed"] != shuffled["rows_needed"]


def test_a_damaged_partition_is_made_anew(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    report = daemon.json(*QUICK, *PARTITION)["report"]
    plan = report["partition"]["plan"]
    daemon.stop()
    for path in sorted((daemon.data_dir / "plans" / plan).iterdir()):
        if path.stat().st_size > 2000:
            contents = bytearray(path.read_bytes())
            contents[len(contents) // 2] ^= 16
            path.write_bytes(contents)
    daemon.start()
    again = daemon.json(*QUICK, *PARTITION, "--strategy", "mmap")
    assert again["report"]["loss_digest"] == report["loss_digest"]


def test_a_partition_in_use_stays(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = daemon.hearth(*ENDLESS, *PARTITION, "--detach").out.strip()
    daemon.wait_for_state(job, "RUNNING")
    name, = partitions(daemon)
    assert "in use" in daemon.hearth("plan", "delete", name, code=1).err
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
    daemon.hearth("plan", "delete", name)


# Everything that an outre job does: partitioning, profiling, sampling, training.
@pytest.mark.full("kills")
@pytest.mark.parametrize("seed", range(4))
def test_kill_9_at_any_moment_of_outre(start_daemon, tmp_path, seed):
    daemon = start_daemon(*TIRELESS)
    daemon.hearth("dataset", "generate", "--to", str(tmp_path / "source"), "--nodes", "60000",
                  "--edges", "900000", "--classes", "16", "--dim", "16")
    daemon.hearth("dataset", "import", "graph", "--source", str(tmp_path / "source"))
    job = ("train", "--dataset", "graph", "--strategy", "outre", "--cpu-cache", "1MiB",
           "--history", "on", "--parts", "200", "--partition-rounds", "3", "--batch-size", "128",
           "--fanouts", "5,5", "--hidden", "8", "--epochs", "2", "--checkpoint-every", "20")
    began = time.monotonic()
    expected = daemon.json(*job)
    seconds = time.monotonic() - began
    plans = plan_files(daemon)

    moments = random.Random(seed)
    for name in plans:
        daemon.hearth("plan", "delete", name)
    again = daemon.hearth(*job, "--detach").out.strip()
    for _ in range(5):
        time.sleep(moments.uniform(0, seconds / 2))
        daemon.kill()
        daemon.start()
    daemon.wait_for_state(again, "SUCCEEDED")
    report = daemon.json("job", "show", again)["report"]
    assert report["loss_digest"] == expected["report"]["loss_digest"]
    assert report["history"] == expected["report"]["history"]
    assert plan_files(daemon) == plans
    # A warm strategy has files there.
    daemon.stop()
    daemon.start()
    scratch = [path for path in (daemon.data_dir / "scratch").rglob("*") if path.is_file()]
    assert scratch == []


def plan_files(daemon):
    """The digests of the files of all plans, by plan, but for those that tell times."""
    return {plan["name"]: digests(daemon.data_dir / "plans" / plan["name"], "about.json",
                                  "last_use", "partition.index")
            for plan in daemon.json("plan", "list")["plans"]}


def test_a_kill_in_the_middle_changes_nothing(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    job = (*LONG, *PARTITION, "--epochs", "3", "--checkpoint-every", "5")
    expected = daemon.json(*job)["report"]["loss_digest"]
    again = daemon.hearth(*job, "--detach").out.strip()
    # Batches are counted from each start on.
    for batches in (20, 40, 30):
        daemon.wait_for_batches(again, batches)
        daemon.kill()
        daemon.start()
    daemon.wait_for_state(again, "SUCCEEDED")
    report = daemon.json("job", "show", again)["report"]
    assert report["loss_digest"] == expected and report["resumes"] >= 1
