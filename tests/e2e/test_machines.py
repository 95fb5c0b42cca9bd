"""Several daemons that train one job together."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

from daemon import HEARTH, TIRELESS, Daemon, run, wait_for
from jobs import LONG, LONG_BATCHES_PER_EPOCH, QUICK
from machines import (Cluster, NoNamespaces, cluster, cut, make_certificates, namespaces)

SAME = ("loss_digest", "test_metric", "kept_epoch")


def same(report: dict) -> dict:
    return {key: report[key] for key in SAME}


@pytest.fixture(scope="module")
def three(graph_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), 3, graph_folder, TIRELESS) as shared:
        yield shared


@pytest.mark.parametrize("machines", [2, 3])
def test_machines_train_what_as_many_trainers_do(three: Cluster, machines: int) -> None:
    alone = three.leader.json(*QUICK, "--trainers", str(machines))["report"]
    together = three.leader.json(*QUICK, "--machines", str(machines))["report"]
    assert same(together) == same(alone)
    shares = together["machines"]
    assert [share["member"] for share in shares] == three.names[:machines]
    assert {share["loss_digest"] for share in shares} == {alone["loss_digest"]}
    assert all(int(share["bytes_sent"]) > 0 for share in shares)


@pytest.mark.parametrize("strategy", ["gnndrive", "diskgnn", "foresight", "auto"])
def test_every_strategy_gives_the_same_losses(three: Cluster, strategy: str) -> None:
    options = () if strategy == "auto" else ("--cpu-cache", "16KiB")
    memory = three.leader.json(*QUICK, "--machines", "2", "--strategy", "memory")["report"]
    report = three.leader.json(*QUICK, "--machines", "2", "--strategy", strategy,
                               *options)["report"]
    assert same(report) == same(memory)


def test_what_each_machine_reads_comes_from_its_own_disk(three: Cluster) -> None:
    report = three.leader.json(*QUICK, "--machines", "2", "--strategy", "diskgnn", "--cpu-cache",
                               "16KiB")["report"]
    features = sum(int(epoch["bytes_needed"]) for epoch in report["epochs"])
    for share in report["machines"]:
        assert int(share["bytes_read"]) > features / 4
        assert int(share["bytes_sent"]) < 29 * 2 * 100_000  # Gradients of 58 batches, nothing else.
    series = three.leader.metrics()
    for name in ("sent_bytes", "received_bytes", "wait_seconds"):
        what = ',what="gradients"' if "bytes" in name else ""
        assert f'hearth_cluster_{name}_total{{peer="host-b"{what}}}' in series


def test_trials_of_a_sweep_run_on_all_machines(three: Cluster) -> None:
    sweep = three.leader.json("sweep", "submit", *QUICK[1:], "--machines", "2", "--algorithm",
                              "grid", "--space", "lr=0.01,0.003")
    assert sweep["state"] == "SWEEP_DONE", sweep
    trials = [job for job in three.leader.json("job", "list")["jobs"]
              if job["sweep"] == sweep["id"] and job["id"].startswith("train-")]
    assert len(trials) == 2
    alone = three.leader.json(*QUICK, "--trainers", "2")["report"]
    assert alone["loss_digest"] in {trial["report"]["loss_digest"] for trial in trials}


def test_an_evaluation_gives_the_jobs_own_figure(three: Cluster) -> None:
    job = three.leader.json(*QUICK, "--machines", "2")
    evaluated = three.leader.json("evaluate", job["id"])["report"]
    assert evaluated["test_metric"] == job["report"]["test_metric"]


def test_chosen_members_take_part(three: Cluster) -> None:
    report = three.leader.json(*QUICK, "--machines", "2", "--members", "host-c")["report"]
    assert [share["member"] for share in report["machines"]] == ["host-a", "host-c"]


def test_any_member_leads(three: Cluster) -> None:
    report = three.daemons[1].json(*QUICK, "--machines", "3")["report"]
    assert [share["member"] for share in report["machines"]] == ["host-b", "host-a", "host-c"]


def test_members_are_listed(three: Cluster) -> None:
    members = three.leader.json("cluster")["members"]
    assert sorted(member["name"] for member in members) == three.names
    assert all(member["state"]["datasets"][0]["name"] == "planted" for member in members)
    assert "host-c" in three.leader.hearth("cluster").out


@contextlib.contextmanager
def joined_namespaces(count: int) -> Iterator[list[str]]:
    with contextlib.ExitStack() as made:
        try:
            names = made.enter_context(namespaces(count))
        except NoNamespaces as reason:
            pytest.skip(str(reason))
        yield names


def begin(machines: Cluster, *options: str, count: int = 2) -> str:
    return machines.leader.json(*LONG, "--machines", str(count), "--checkpoint-every", "10",
                                "--detach", *options)["id"]


def test_a_cancelled_job_goes_on_where_all_left_it(three: Cluster, undisturbed: dict) -> None:
    job = begin(three)
    three.leader.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 5)
    shown = three.leader.json("job", "show", job)
    assert [machine["member"] for machine in shown["machines"]] == three.names[:2]
    three.leader.hearth("job", "cancel", job)
    three.leader.wait_for_state(job, "CANCELLED")
    assert "stopped at epoch" in three.leader.hearth("job", "logs", job).out
    three.wait_for_rank(three.daemons[1], "CANCELLED")
    three.leader.hearth("job", "resume", job)
    three.leader.wait_for_state(job, "SUCCEEDED")
    report = three.leader.json("job", "show", job)["report"]
    alone = three.leader.json(*LONG, "--trainers", "2")["report"]
    assert same(report) == same(alone)


def test_a_job_survives_a_kill_of_any_member(three: Cluster) -> None:
    alone = three.leader.json(*LONG, "--trainers", "3")["report"]
    job = begin(three, count=3)
    for daemon in three.daemons:
        before = three.leader.batches_done(job)
        three.leader.wait_for_batches(job, before + 15)
        daemon.kill()
        if daemon is not three.leader:
            assert three.leader.wait_for_state(job, "WAITING")
            reason = three.leader.json("job", "show", job)["waiting_reason"]
            assert reason.startswith("machines: host-"), reason
        daemon.start()
    three.leader.wait_for_state(job, "SUCCEEDED")
    assert same(three.leader.json("job", "show", job)["report"]) == same(alone)


@pytest.mark.full("machines")
def test_a_hundred_kills_change_nothing(three: Cluster, tell: Callable[[str], None]) -> None:
    """kill -9 of any daemon at any moment, at most three at a time."""
    long = (*LONG, "--epochs", "60", "--checkpoint-every", "5")
    alone = three.leader.json(*long, "--trainers", "3")["report"]
    draw = random.Random(1)
    kills = jobs = 0
    while kills < 100:
        job = three.leader.json(*long, "--machines", "3", "--detach")["id"]
        jobs += 1
        while kills < 100 and three.leader.state(job) != "SUCCEEDED":
            time.sleep(draw.uniform(0, 4))
            struck = draw.sample(three.daemons, draw.choice((1, 1, 1, 2, 3)))
            for daemon in struck:
                daemon.kill()
            kills += len(struck)
            for daemon in struck:
                daemon.start()
        three.leader.wait_for_state(job, "SUCCEEDED")
        report = three.leader.json("job", "show", job)["report"]
        assert same(report) == same(alone)
    tell(f"{kills} kills of {jobs} jobs")


def test_a_member_that_hangs_is_left_within_seconds(three: Cluster) -> None:
    job = begin(three)
    three.leader.wait_for_batches(job, 15)
    three.daemons[1].send_signal(signal.SIGSTOP)
    three.leader.wait_for_state(job, "WAITING")
    assert "host-b" in three.leader.json("job", "show", job)["waiting_reason"]
    three.daemons[1].send_signal(signal.SIGCONT)
    three.leader.wait_for_state(job, "SUCCEEDED")
    alone = three.leader.json(*LONG, "--trainers", "2")["report"]
    assert same(three.leader.json("job", "show", job)["report"]) == same(alone)


def test_a_leader_that_hung_goes_on(three: Cluster) -> None:
    job = begin(three)
    three.leader.wait_for_batches(job, 15)
    three.leader.send_signal(signal.SIGSTOP)
    rank = three.wait_for_rank(three.daemons[1], "RUNNING")
    try:
        three.daemons[1].wait_for_state(rank["id"], "CANCELLED")
    finally:
        three.leader.send_signal(signal.SIGCONT)
    three.leader.wait_for_log(job, "attempt 2 on host-a, host-b")
    assert "did not run for" in three.leader.log
    three.leader.wait_for_state(job, "SUCCEEDED")
    alone = three.leader.json(*LONG, "--trainers", "2")["report"]
    assert same(three.leader.json("job", "show", job)["report"]) == same(alone)


@pytest.mark.parametrize("side", [0, 1], ids=["leader", "member"])
def test_a_link_that_is_cut_ends_the_attempt_on_both_sides(
        side: int, graph_folder: Path, tmp_path: Path) -> None:
    with joined_namespaces(2) as names, cluster(tmp_path / "cluster", 2, graph_folder, TIRELESS,
                                                names) as two:
        # Long enough not to end before the cut: progress is told each second.
        longer = ("--epochs", "20")
        job = begin(two, *longer)
        two.wait_for_batches_of(job, 1, 5)
        rank = two.wait_for_rank(two.daemons[1], "RUNNING")
        with cut(names[side]):
            two.leader.wait_for_state(job, "WAITING")
            two.daemons[1].wait_for_state(rank["id"], "CANCELLED")
            # Between two attempts.
            wait_for(lambda: "host-b" in two.leader.json("job", "show", job)["waiting_reason"],
                     "the job to wait for host-b")
        two.leader.wait_for_state(job, "SUCCEEDED")
        alone = two.leader.json(*LONG, *longer, "--trainers", "2")["report"]
        assert same(two.leader.json("job", "show", job)["report"]) == same(alone)


def test_a_member_that_stops_lets_all_leave_with_a_checkpoint(three: Cluster) -> None:
    job = begin(three, "--checkpoint-every", "0")
    three.leader.wait_for_batches(job, 15)
    three.daemons[1].stop()
    three.leader.wait_for_state(job, "WAITING")
    assert "stopped at epoch 1, batch" in three.leader.hearth("job", "logs", job).out
    three.daemons[1].start()
    three.leader.wait_for_state(job, "SUCCEEDED")


def test_a_job_goes_on_with_fewer_where_it_may(three: Cluster) -> None:
    job = begin(three, "--min-machines", "2", "--rejoin-wait", "1", count=3)
    three.leader.wait_for_batches(job, 15)
    three.daemons[1].kill()
    try:
        three.leader.wait_for_log(job, "going on with 2 of 3 machines")
        three.leader.wait_for_state(job, "SUCCEEDED")
        report = three.leader.json("job", "show", job)["report"]
        assert [share["member"] for share in report["machines"]] == ["host-a", "host-c"]
        assert "going on from epoch" in three.leader.hearth("job", "logs", job).out
    finally:
        three.daemons[1].start()


def test_a_job_whose_leader_is_gone_goes_on_at_another(three: Cluster) -> None:
    """By an operator's word; the leader that comes back all the same is told, and its job fails."""
    job = begin(three, count=3)
    other = three.daemons[1]
    part = three.wait_for_rank(other, "RUNNING")["id"]
    assert "has not ended" in other.hearth("job", "adopt", part, "--leader-has-ended", code=1).err
    three.leader.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 5)
    three.leader.kill()
    try:
        other.wait_for_state(part, "CANCELLED")
        assert "--leader-has-ended" in other.hearth("job", "adopt", part, code=2).err
        adopted = other.json("job", "adopt", part, "--leader-has-ended")
        assert adopted["state"] == "SUCCEEDED"
        assert [one["member"] for one in adopted["report"]["machines"]] == ["host-b", "host-c"]
        assert "going on from epoch" in other.hearth("job", "logs", adopted["id"]).out
        again = other.json("job", "adopt", part, "--leader-has-ended")
        assert again["id"] == adopted["id"]
    finally:
        three.leader.start()
    three.leader.wait_for_state(job, "FAILED")
    error = three.leader.json("job", "show", job)["error"]["message"]
    assert f"was adopted: host-b goes on with it, as {adopted['id']}" in error


def test_a_job_that_was_not_begun_here_cannot_be_adopted(three: Cluster) -> None:
    job = three.leader.json(*QUICK)["id"]
    refused = three.leader.hearth("job", "adopt", job, "--leader-has-ended", code=1)
    assert "is not this machine's part" in refused.err


def test_another_number_of_machines_goes_on_from_a_checkpoint(three: Cluster) -> None:
    job = begin(three)
    three.leader.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 5)
    three.leader.hearth("job", "cancel", job)
    three.leader.wait_for_state(job, "CANCELLED")
    three.leader.hearth("job", "resume", job, "--machines", "3")
    three.leader.wait_for_state(job, "SUCCEEDED")
    report = three.leader.json("job", "show", job)["report"]
    assert len(report["machines"]) == 3
    assert [(change["epoch"], change["machines"]) for change in report["machine_changes"]] == [
        (2, 3)]
    assert "3 machines from epoch 2, batch " in three.leader.hearth("job", "show", job).out


def test_a_cancelled_rank_ends_the_attempt_alone(three: Cluster) -> None:
    job = begin(three)
    three.leader.wait_for_batches(job, 15)
    rank = three.wait_for_rank(three.daemons[1], "RUNNING")
    three.daemons[1].hearth("job", "cancel", rank["id"])
    three.leader.wait_for_log(job, "attempt 2 on host-a, host-b")
    three.leader.wait_for_state(job, "SUCCEEDED")


def test_another_dataset_of_the_name_is_refused(three: Cluster, other_folder: Path,
                                                graph_folder: Path) -> None:
    three.leader.import_graph("mine", graph_folder)
    missing = three.leader.hearth(*QUICK, "--dataset", "mine", "--machines", "2", code=1)
    assert "host-b" in missing.err and "mine" in missing.err
    three.daemons[1].import_graph("mine", other_folder)
    other = three.leader.hearth(*QUICK, "--dataset", "mine", "--machines", "2", code=1)
    assert "fingerprint" in other.err


def test_what_does_not_go_together_is_refused(three: Cluster) -> None:
    for options, words in (
            (("--machines", "9"), "there are 3"),
            (("--machines", "2", "--members", "host-x"), "host-x"),
            (("--machines", "2", "--model", "none"), "model"),
            (("--machines", "2", "--strategy", "gnndrive", "--reorder", "true"), "exact"),
            (("--members", "host-b"), "machines")):
        refused = three.leader.hearth(*QUICK, *options, code=None)
        assert refused.code in (1, 2) and words in refused.err, refused


def test_a_daemon_without_a_cluster_has_no_machines(daemon: Daemon) -> None:
    assert "--cluster" in daemon.hearth(*QUICK, "--machines", "2", code=1).err
    assert "--cluster" in daemon.hearth("cluster", code=1).err


def test_nobody_else_comes_in_by_the_members_address(three: Cluster, tmp_path: Path) -> None:
    """Neither without a certificate, nor with one of another authority or of a client."""
    address = three.addresses["host-b"]
    token = three.leader.json("admin", "token", "create", "operator", "--role", "operator")
    try:
        for credentials in (
                ("--ca", str(three.folder / "ca.pem")),
                ("--ca", str(three.folder / "ca.pem"), *client_of(three.folder)),
                ("--ca", str(three.folder / "ca.pem"), *stranger_of(tmp_path))):
            refused = three.leader.hearth("--server", address, *credentials, "status", code=None)
            assert refused.code != 0, refused
    finally:
        three.leader.hearth("admin", "token", "revoke", token["token"]["name"], code=None)


def client_of(folder: Path) -> tuple[str, ...]:
    """A client's certificate of the cluster's own authority."""
    made = run([HEARTH, "admin", "certs", "--to", str(folder), "--client", "mallory", "--role",
                "operator"])
    assert made.code == 0, made
    return ("--cert", str(folder / "client-mallory.pem"), "--key",
            str(folder / "client-mallory.key"))


def stranger_of(folder: Path) -> tuple[str, ...]:
    """A member's certificate of another authority."""
    make_certificates(folder, "host-a")
    return ("--cert", str(folder / "member-host-a.pem"), "--key",
            str(folder / "member-host-a.key"))
