"""foresight: prepares while it trains, and gives the batches of `memory` through kills, plans that
exist, and little disk."""

from __future__ import annotations

import random
import time

import pytest

from daemon import TIRELESS
from jobs import LONG, QUICK, assert_a_kill_changes_nothing

FORESIGHT = ("--strategy", "foresight", "--cpu-cache", "16KiB")


def plans(daemon):
    return {plan.name for plan in (daemon.data_dir / "plans").glob("foresight-*")}


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    return daemon


@pytest.mark.parametrize("model", ["sage", "gcn", "gat"])
@pytest.mark.parametrize("options", [
    ("--cpu-cache", "0"), ("--cpu-cache", "16KiB", "--samplers", "2", "--extractors", "2"),
    ("--cpu-cache", "24KiB", "--disk-limit", "1KiB"),
    ("--cpu-cache", "20KiB", "--topology", "slabs"),
    ("--cpu-cache", "1GiB"), ("--cpu-cache", "16KiB", "--first-epochs", "8"),
], ids=lambda options: "-".join(options).replace("--", ""))
def test_training_is_that_of_memory(daemon, model, options):
    job = (*QUICK, "--model", model, "--epochs", "4")
    expected = daemon.json(*job, "--strategy", "memory")["report"]
    report = daemon.json(*job, "--strategy", "foresight", *options)["report"]
    assert report["loss_digest"] == expected["loss_digest"]
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    for part in (*report["epochs"], report["test"]):
        assert sum(level["rows"] for level in part["hits"]) + part["rows_read"] \
            == part["rows_needed"]


# Layers wider than rows sum first, so that GraphSAGE, GCN and GIN read rows in place.
@pytest.mark.parametrize("model", ["sage", "gcn", "gin", "gat", "gatv2"])
@pytest.mark.parametrize("options", [
    ("--cpu-cache", "0"), ("--cpu-cache", "64KiB", "--trainers", "2"),
    ("--cpu-cache", "64KiB", "--row-dtype", "int8"), ("--cpu-cache", "1GiB", "--row-dtype", "bf16"),
], ids=lambda options: "-".join(options).replace("--", ""))
def test_rows_in_place_change_nothing(daemon, model, options):
    job = (*QUICK, "--model", model, "--hidden", "128", "--epochs", "3", "--fanouts", "5,5,5")
    given = options[options.index("--cpu-cache") + 2:]
    expected = daemon.json(*job, "--strategy", "memory", *given)["report"]
    report = daemon.json(*job, "--strategy", "foresight", *options)["report"]
    assert report["loss_digest"] == expected["loss_digest"]
    assert report["test_metric"] == expected["test_metric"]
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]


@pytest.mark.parametrize("epochs", [("--distinct-epochs", "2"), ("--refresh", "2"),
                                    ("--distinct-epochs", "1", "--refresh", "3")],
                         ids=lambda epochs: "-".join(epochs).replace("--", ""))
def test_repeated_and_refreshed_epochs_are_those_of_memory(daemon, epochs):
    digests = {daemon.json(*QUICK, "--epochs", "6", *epochs, *strategy)["report"]["loss_digest"]
               for strategy in (("--strategy", "memory"), FORESIGHT)}
    assert len(digests) == 1


@pytest.mark.parametrize("first_epochs", ["0.5", "8"])
def test_repetitions_use_the_plans_of_the_first_one(fresh, first_epochs):
    job = (*QUICK, "--distinct-epochs", "2", "--model", "sage")
    report = fresh.json(*job, *FORESIGHT, "--first-epochs", first_epochs, "--epochs", "12")
    lines = [line["text"] for line in fresh.json("job", "logs", report["id"])["lines"]]
    second = lines.index(next(line for line in lines if line.startswith("epoch 3:")))
    # The test alone comes behind all repetitions.
    assert sum(" made: " in line for line in lines[second:]) <= 1
    expected = fresh.json(*job, "--strategy", "memory", "--epochs", "12")["report"]
    assert report["report"]["loss_digest"] == expected["loss_digest"]
    assert report["report"]["test_metric"] == expected["test_metric"]


def test_later_jobs_find_the_plans(fresh):
    first = fresh.json(*QUICK, *FORESIGHT, "--epochs", "4")
    log = fresh.hearth("job", "logs", first["id"]).out
    assert " made: " in log and "rows are read, at most" in log
    made = plans(fresh)
    second = fresh.json(*QUICK, *FORESIGHT, "--epochs", "4", "--model", "gcn", "--lr", "0.1")
    assert " reused" in fresh.hearth("job", "logs", second["id"]).out
    assert plans(fresh) == made


def test_patience_ends_a_job_before_its_plans_do(daemon):
    job = (*QUICK, "--epochs", "40", "--patience", "1", "--lr", "0.3")
    expected = daemon.json(*job, "--strategy", "memory")["report"]
    report = daemon.json(*job, *FORESIGHT)["report"]
    assert len(report["epochs"]) < 40
    assert report["loss_digest"] == expected["loss_digest"]
    assert report["test_metric"] == expected["test_metric"]


def test_a_kill_while_training_changes_nothing(fresh):
    assert_a_kill_changes_nothing(fresh, (*LONG, *FORESIGHT))


def contents(daemon):
    """Samples, plans of slots, and slots: what no measured time has a part in."""
    return {file.relative_to(daemon.data_dir): file.read_bytes()
            for plan in (daemon.data_dir / "plans").glob("foresight-*")
            for file in plan.iterdir()
            if file.name.startswith("samples") or file.name in ("shard_plans", "slots")}


def kill_at_any_time(daemon, other, kills, seed):
    """Trains through kills, on another daemon without, and from memory: the same result, and the
    same plans."""
    job = (*LONG, *FORESIGHT, "--fanouts", "5,5", "--checkpoint-every", "7")
    chance = random.Random(seed)
    killed = daemon.json(*job, "--detach")["id"]
    for _ in range(kills):
        time.sleep(chance.uniform(0.05, 1.0))
        daemon.kill()
        daemon.start()
    report = daemon.json("job", "watch", killed)["report"]
    undisturbed = other.json(*job)["report"]
    assert contents(daemon) == contents(other)
    assert report["loss_digest"] == undisturbed["loss_digest"]
    assert report["test_metric"] == undisturbed["test_metric"]
    in_memory = daemon.json(*LONG, "--strategy", "memory", "--fanouts", "5,5")["report"]
    assert report["loss_digest"] == in_memory["loss_digest"]


@pytest.fixture
def two_daemons(start_daemon, graph_folder):
    daemons = [start_daemon(*TIRELESS) for _ in range(2)]
    for daemon in daemons:
        daemon.import_graph("planted", graph_folder)
    return daemons


def test_kills_at_any_time_change_nothing(two_daemons):
    kill_at_any_time(*two_daemons, kills=3, seed=1)


@pytest.mark.full("kills")
def test_many_kills_change_nothing(two_daemons):
    kill_at_any_time(*two_daemons, kills=20, seed=2)
