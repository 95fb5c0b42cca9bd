"""Plans: prepared, listed, kept within their space, refreshed while training, and whole or made
anew after a kill at any moment."""

from __future__ import annotations

import random
import time

import pytest

from daemon import TIRELESS, wait_for
from jobs import DISKGNN, ENDLESS, LONG, QUICK, prepare
from stored import plan_digests


def names(daemon):
    return [plan["name"] for plan in daemon.json("plan", "list")["plans"]]


def test_training_finds_what_was_prepared(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = daemon.json(*prepare(QUICK))
    made = job["report"]["preparation"]
    assert not made["reused"] and made["disk_bytes"] > 0 and "segments of" in made["reason"]
    assert [phase["name"] for phase in made["phases"]] == ["sampling", "planning", "packing"]
    assert job["report"]["peak_memory_bytes"] <= job["report"]["memory_bound_bytes"]
    trained = daemon.json(*QUICK, *DISKGNN)["report"]
    found, = trained["preparations"]
    assert found["reused"] and found["plan"] == made["plan"]
    assert trained["loss_digest"] == \
        daemon.json(*QUICK, "--strategy", "memory")["report"]["loss_digest"]
    # Other batches are another plan; without a model nothing is evaluated.
    assert daemon.json(*prepare(QUICK, "--model", "none"))["report"]["preparation"]["plan"] \
        != made["plan"]
    plan = daemon.json("plan", "show", made["plan"])
    assert plan["state"] == "WHOLE" and plan["datasets"] == ["planted"]
    assert plan["size_bytes"] <= made["disk_bytes"]
    shown = daemon.hearth("plan", "show", made["plan"]).out
    assert "fan-outs" in shown and "rows in packs" in shown
    assert "made in" in daemon.hearth("job", "show", job["id"]).out


def test_what_has_nothing_to_prepare_is_refused(daemon):
    refused = daemon.hearth("prepare", *QUICK[1:], "--strategy", "memory", code=2)
    assert "--strategy: must be diskgnn" in refused.err
    daemon.hearth(*QUICK, "--refresh", "2", "--distinct-epochs", "3", code=2)


def test_a_plan_in_use_stays(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = daemon.hearth(*ENDLESS[:3], *ENDLESS[5:], *DISKGNN, "--distinct-epochs", "1",
                        "--detach").out.strip()
    daemon.wait_for_state(job, "RUNNING")
    name, = names(daemon)
    refused = daemon.hearth("plan", "delete", name, code=1)
    assert "in use" in refused.err
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
    daemon.hearth("plan", "delete", name)
    assert names(daemon) == [] and "no plan" in daemon.hearth("plan", "show", name, code=1).err


def test_the_plan_of_the_next_job_is_made_while_one_trains(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    alone = daemon.json(*QUICK, "--strategy", "memory")["report"]["loss_digest"]
    running = daemon.hearth(*ENDLESS, "--detach").out.strip()
    daemon.wait_for_state(running, "RUNNING")
    queued = daemon.hearth(*QUICK, *DISKGNN, "--detach").out.strip()
    daemon.wait_for_log(queued, "was made ahead in ")
    assert daemon.state(running) == "RUNNING" and daemon.state(queued) == "QUEUED"
    daemon.hearth("job", "cancel", running)
    daemon.wait_for_state(queued, "SUCCEEDED")
    report = daemon.json("job", "show", queued)["report"]
    made, = report["preparations"]
    assert made["reused"] and [made["plan"]] == names(daemon)
    assert report["loss_digest"] == alone


def test_no_plan_is_made_ahead_where_that_is_off(start_daemon, graph_folder):
    daemon = start_daemon("--prepare-ahead", "off")
    daemon.import_graph("planted", graph_folder)
    running = daemon.hearth(*ENDLESS, "--detach").out.strip()
    queued = daemon.hearth(*QUICK, *DISKGNN, "--detach").out.strip()
    daemon.wait_for_batches(running, 20)
    daemon.hearth("job", "cancel", running)
    daemon.wait_for_state(queued, "SUCCEEDED")
    assert not daemon.json("job", "show", queued)["report"]["preparations"][0].get("reused")


@pytest.mark.parametrize("rest", [0, 1, 2])
def test_a_kill_while_a_plan_is_made_ahead_loses_nothing(start_daemon, graph_folder, rest):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    alone = daemon.json(*QUICK, "--strategy", "memory")["report"]["loss_digest"]
    running = daemon.hearth(*ENDLESS, "--detach").out.strip()
    queued = daemon.hearth(*QUICK, *DISKGNN, "--detach").out.strip()
    wait_for(lambda: (daemon.data_dir / "plans").exists() and names(daemon) or None, "a plan")
    time.sleep(0.02 * rest)
    daemon.kill()
    daemon.start()
    daemon.hearth("job", "cancel", running)
    daemon.wait_for_state(queued, "SUCCEEDED")
    assert daemon.json("job", "show", queued)["report"]["loss_digest"] == alone


def test_plans_keep_to_their_space(daemon, start_daemon, graph_folder):
    size = daemon.json(*prepare(QUICK))["report"]["preparation"]["disk_bytes"]
    # Room for two of them, and for what is written at a time while sampling.
    space = 2 * size + size // 2 + (1 << 20)
    daemon = start_daemon("--plan-space", str(space))
    daemon.import_graph("planted", graph_folder)
    made = [daemon.json(*prepare(QUICK))["report"]["preparation"]["plan"]]
    for seed in ("2", "3", "4"):
        made.append(daemon.json(*prepare(QUICK, "--data-seed", seed))
                    ["report"]["preparation"]["plan"])
        status = daemon.json("status")
        assert status["plan_bytes"] <= space and status["plan_limit_bytes"] == space
    # The last ones used.
    assert names(daemon) == [made[3], made[2]]
    daemon.json(*prepare(QUICK, "--data-seed", "3"))
    assert names(daemon) == [made[2], made[3]]
    assert f"hearth_plan_bytes {sum(p['size_bytes'] for p in daemon.json('plan', 'list')['plans'])}" \
        in daemon.metrics()


def test_refreshed_epochs_are_those_of_memory(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = (*QUICK, "--epochs", "5", "--refresh", "2")
    expected = daemon.json(*job, "--strategy", "memory")["report"]
    report = daemon.json(*job, *DISKGNN)["report"]
    assert report["loss_digest"] == expected["loss_digest"]
    assert report["test_metric"] == expected["test_metric"]
    assert [p["first_epoch"] for p in report["preparations"]] == [1, 3, 5]
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]
    assert len(names(daemon)) == 3
    log = daemon.hearth("job", "logs", daemon.json("job", "list")["jobs"][0]["id"]).out
    assert "ahead: " in log
    # Other batches than without.
    assert daemon.json(*QUICK, "--epochs", "5", "--distinct-epochs", "2")["report"]["loss_digest"] \
        != report["loss_digest"]


def kill_while_preparing(daemon, kills, seed):
    job = prepare(LONG[:3] + LONG[5:], "--epochs", "4")
    start = time.monotonic()
    name = daemon.json(*job)["report"]["preparation"]["plan"]
    seconds = time.monotonic() - start
    whole = plan_digests(daemon.data_dir, name)
    assert set(whole) >= {"index", "packs", "cpu_cache"}
    moments = random.Random(seed)
    for _ in range(kills):
        daemon.hearth("plan", "delete", name)
        preparing = daemon.hearth(*job, "--detach").out.strip()
        time.sleep(moments.uniform(0, seconds))
        daemon.kill()
        daemon.start()
        daemon.wait_for_state(preparing, "SUCCEEDED")
        assert names(daemon) == [name]
        assert plan_digests(daemon.data_dir, name) == whole


def test_a_preparation_that_is_killed_ends_with_the_same_bytes(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    kill_while_preparing(daemon, kills=3, seed=1)


@pytest.mark.full("kills")
def test_many_kills_of_preparations(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    kill_while_preparing(daemon, kills=20, seed=2)


def mean(report, field):
    return sum(epoch[field] for epoch in report["epochs"]) / len(report["epochs"])


def test_explain_tells_what_training_then_does(start_daemon, graph_folder):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    told = daemon.json("explain", *QUICK[1:], *DISKGNN)["report"]
    assert names(daemon) == [] and not told["plan_exists"]
    assert told["sampled_batches"] == told["total_batches"] > 0
    report = daemon.json(*QUICK, *DISKGNN)["report"]
    for field in ("batches", "rows_needed", "bytes_needed", "bytes_read", "read_ops"):
        assert told[field] == pytest.approx(mean(report, field), rel=0.01), field
    levels = {level["level"]: level["rows"] for level in told["levels"]}
    hits = sum(e["hits"][0]["rows"] for e in report["epochs"]) / len(report["epochs"])
    assert levels["cpu_cache"] == pytest.approx(hits, rel=0.01)
    assert levels["disk_cache"] + levels["packs"] == \
        pytest.approx(mean(report, "rows_read"), rel=0.01)
    made, = report["preparations"]
    assert told["plan"] == made["plan"]
    assert told["disk_bytes"] == pytest.approx(made["disk_bytes"], rel=0.01)
    assert told["epoch_seconds"] > 0 and told["prepare_seconds"] > 0
    again = daemon.json("explain", *QUICK[1:], *DISKGNN)["report"]
    assert again["plan_exists"] and again["prepare_seconds"] == 0
    assert again["rows_needed"] == told["rows_needed"]
    shown = daemon.hearth("explain", *QUICK[1:], *DISKGNN).out
    assert "rows an epoch" in shown and "cpu_cache" in shown and "(there)" in shown


@pytest.mark.parametrize("strategy", ["memory", "mmap", "gnndrive"])
def test_explain_of_other_strategies(daemon, strategy):
    told = daemon.json("explain", *QUICK[1:], "--strategy", strategy)["report"]
    assert told["rows_needed"] > 0 and told["memory_bytes"] > 0 and told["plan"] == ""
    assert told["epoch_seconds"] > 0 and told["first_epoch_seconds"] > 0
    assert told["prepare_seconds"] >= 0
    assert (told["bytes_read"] == 0) == (strategy == "memory" or told["read_ops"] == 0)
