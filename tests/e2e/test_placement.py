"""Datasets whose feature rows are spread over the members of a cluster."""

from __future__ import annotations

import contextlib
import re
import signal
from pathlib import Path
from typing import Iterator

import pytest

from daemon import TIRELESS, Daemon, wait_for
from jobs import QUICK
from machines import Cluster, cluster
from test_heterographs import RSAGE

SAME = ("loss_digest", "test_metric", "kept_epoch")
STRATEGIES = {"diskgnn": ("--strategy", "diskgnn", "--cpu-cache", "16KiB"),
              "foresight": ("--strategy", "foresight", "--cpu-cache", "16KiB")}
# host-a has all rows and stays out; host-b leads.
APART = ("--machines", "2", "--members", "host-b,host-c")
LARGE_ROWS, LARGE_DIM = 200_000, 512
LARGE = ("dataset", "generate", "large", "--nodes", str(LARGE_ROWS), "--edges", "400000",
         "--dim", str(LARGE_DIM))
ON_LARGE = (*QUICK, "--dataset", "large", "--epochs", "1", "--batch-size", "1024")


def same(report: dict) -> dict:
    return {key: report[key] for key in SAME}


def copy(daemon: Daemon, name: str, *flags: str) -> dict:
    return daemon.json("dataset", "copy", name, "--from", "host-a", *flags)


@pytest.fixture(scope="module")
def three(graph_folder: Path, typed_folder: Path,
          tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """host-a has the datasets `spread`, in place, `half`, `typed` and `large`; host-b and host-c
    have a half of each."""
    with cluster(tmp_path_factory.mktemp("cluster"), 3, graph_folder, TIRELESS) as shared:
        shared.leader.import_graph("spread", graph_folder, "--in-place")
        shared.leader.hearth("dataset", "import", "typed", "--source", str(typed_folder))
        shared.leader.hearth("dataset", "generate", "half", "--nodes", "5001", "--edges", "50000",
                             "--dim", "33", "--dtype", "float16")
        shared.leader.hearth(*LARGE)
        for name in ("spread", "typed", "half", "large"):
            for i, daemon in enumerate(shared.daemons[1:]):
                copy(daemon, name, "--share", f"{i + 1}/2")
        yield shared


def rows_received(daemon: Daemon) -> int:
    """Bytes of rows that a daemon has got from other members."""
    found = re.findall(r'^hearth_cluster_received_bytes_total{[^}]*what="rows"[^}]*} (\S+)$',
                       daemon.metrics(), re.MULTILINE)
    return sum(int(float(one)) for one in found)


@contextlib.contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    daemon.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dataset", ["spread", "half", "typed"])
def test_losses_are_those_of_the_whole_dataset(three: Cluster, dataset: str, strategy: str,
                                               tmp_path: Path) -> None:
    job = (*(RSAGE if dataset == "typed" else QUICK), "--dataset", dataset, *STRATEGIES[strategy])
    alone = three.leader.json(*job, "--trainers", "2")
    before = [rows_received(daemon) for daemon in three.daemons[1:]]
    together = three.daemons[1].json(*job, *APART)
    assert same(together["report"]) == same(alone["report"])
    assert [share["member"] for share in together["report"]["machines"]] == ["host-b", "host-c"]
    assert all(rows_received(daemon) > had for daemon, had in zip(three.daemons[1:], before))
    models = []
    for daemon, trained in ((three.leader, alone), (three.daemons[1], together)):
        folder = tmp_path / daemon.data_dir.name
        daemon.hearth("export", trained["id"], "--to", str(folder))
        models.append((folder / "model.safetensors").read_bytes())
    assert models[0] == models[1]


def test_a_member_with_all_rows_takes_part(three: Cluster) -> None:
    job = (*QUICK, "--dataset", "spread", *STRATEGIES["diskgnn"])
    alone = three.leader.json(*job, "--trainers", "3")["report"]
    together = three.leader.json(*job, "--machines", "3")["report"]
    assert same(together) == same(alone)


def test_packs_need_the_other_rows_once(three: Cluster) -> None:
    job = (*ON_LARGE, *STRATEGIES["diskgnn"], *APART, "--seed", "77")
    before = [rows_received(daemon) for daemon in three.daemons[1:]]
    three.daemons[1].hearth(*job)
    got = [rows_received(daemon) - had for daemon, had in zip(three.daemons[1:], before)]
    half = LARGE_ROWS * LARGE_DIM * 4 / 2
    for received in got:
        assert half / 20 < received < half * 1.01, got
    three.daemons[1].hearth(*job)
    again = [rows_received(daemon) - had for daemon, had in zip(three.daemons[1:], before)]
    assert again == got


def test_it_is_told_which_rows_are_where(three: Cluster) -> None:
    first, second = three.daemons[1:]
    for daemon, rows in ((first, "rows 0–99,999 of 200,000"),
                         (second, "rows 100,000–199,999 of 200,000")):
        for command in (("dataset", "show", "large"), ("dataset", "list")):
            assert rows in daemon.hearth(*command).out
        assert rows in three.leader.hearth("cluster").out
        shown = daemon.json("dataset", "show", "large")
        whole = three.leader.json("dataset", "show", "large")
        assert shown["fingerprint"] == whole["fingerprint"]
        kept = int(whole["size_bytes"]) - int(shown["size_bytes"])
        assert kept == LARGE_ROWS * LARGE_DIM * 4 / 2 + LARGE_ROWS * 4 + 16
        on_disk = sum(file.stat().st_blocks * 512
                      for file in (daemon.data_dir / "datasets/large").iterdir())
        assert on_disk < int(shown["size_bytes"]) + 200_000
        daemon.hearth("dataset", "verify", "large")
        daemon.hearth("dataset", "verify", "typed")


def test_a_share_goes_by_the_members_place(three: Cluster) -> None:
    three.leader.hearth("dataset", "generate", "thirds", "--nodes", "900", "--edges", "9000")
    for daemon, rows in zip(three.daemons[1:], ("rows 300–599 of 900", "rows 600–899 of 900")):
        copy(daemon, "thirds", "--placement", "sharded")
        assert rows in daemon.hearth("dataset", "show", "thirds").out
    job = ("--dataset", "thirds", *STRATEGIES["foresight"])
    missing = three.daemons[1].hearth(*QUICK, *job, *APART, code=1)
    assert "rows 0 .. 299 of 900" in missing.err, missing
    assert three.leader.json(*QUICK, *job, "--machines", "3")["state"] == "SUCCEEDED"


def test_what_needs_all_rows_is_refused(three: Cluster, tmp_path: Path) -> None:
    holder = three.daemons[1]
    spread = ("--dataset", "spread")
    for command, words in (
            ((*QUICK, *spread, "--strategy", "diskgnn"), "on this machine alone"),
            ((*QUICK, *spread, *APART, "--strategy", "gids"), "strategy gids"),
            ((*QUICK, *spread, *APART, "--strategy", "memory"), "strategy memory"),
            ((*QUICK, *spread, *APART, "--strategy", "auto"), "--strategy auto"),
            ((*QUICK, *spread, *APART, *STRATEGIES["diskgnn"], "--row-dtype", "bf16"),
             "rows of another type"),
            ((*QUICK, *spread, *APART, *STRATEGIES["diskgnn"], "--min-machines", "1"),
             "min-machines"),
            (("explain", *QUICK[1:], *spread, "--strategy", "diskgnn"), "on this machine alone"),
            (("prepare", *QUICK[1:], *spread, "--strategy", "diskgnn"), "on this machine alone"),
            (("dataset", "export", "spread", "--to", str(tmp_path / "out")), "whole dataset")):
        refused = holder.hearth(*command, code=1)
        assert words in refused.err and "Traceback" not in refused.err, (command, refused)
    trained = holder.json(*QUICK, *spread, *APART, *STRATEGIES["diskgnn"])["id"]
    refused = holder.hearth("evaluate", trained, code=1)
    assert "on this machine alone" in refused.err
    onward = three.leader.hearth("dataset", "copy", "spread", "--from", "host-b", code=None)
    assert onward.code != 0
    three.leader.hearth("dataset", "delete", "spread")
    onward = three.leader.hearth("dataset", "copy", "spread", "--from", "host-b", code=1)
    assert "has all of it" in onward.err


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_machine_is_lost_while_its_rows_are_packed(three: Cluster, strategy: str,
                                                     number: signal.Signals) -> None:
    leads, lost = three.daemons[1:]
    # Plans of another seed's job do not help.
    seed = ("--seed", str(100 + number + len(strategy)))
    undisturbed = three.leader.json(*ON_LARGE, *seed, "--trainers", "2")["report"]
    before = rows_received(leads)
    job = leads.json(*ON_LARGE, *seed, *STRATEGIES[strategy], *APART, "--detach")["id"]
    wait_for(lambda: rows_received(leads) > before, "rows to come", poll_seconds=0.002)
    if number == signal.SIGKILL:
        lost.kill()
    else:
        lost.send_signal(signal.SIGSTOP)
    try:
        leads.wait_for_state(job, "WAITING")
        assert "host-c" in leads.json("job", "show", job)["waiting_reason"]
    finally:
        if number == signal.SIGKILL:
            lost.start()
        else:
            lost.send_signal(signal.SIGCONT)
    leads.wait_for_state(job, "SUCCEEDED")
    assert same(leads.json("job", "show", job)["report"]) == same(undisturbed)


def test_a_killed_copy_of_a_share_goes_on_where_it_was(three: Cluster) -> None:
    copier = three.daemons[2]
    copier.hearth("dataset", "delete", "large")
    job = copy(copier, "large", "--share", "2/2", "--detach")["id"]
    file = copier.data_dir / "datasets" / f"{job}.tmp" / "node.features.npy"
    wait_for(lambda: file.exists() and file.stat().st_size > 50_000_000, "a quarter of a copy",
             poll_seconds=0.002)
    with stopped(three.leader):
        copier.kill()
    copier.start()
    copier.wait_for_state(job, "SUCCEEDED")
    assert "from an earlier run" in copier.hearth("job", "logs", job).out
    copier.hearth("dataset", "verify", "large")


def test_damage_on_the_other_disk_ends_the_job(three: Cluster) -> None:
    leads, damaged = three.daemons[1:]
    file = damaged.data_dir / "datasets/half/node.features.npy"
    good = file.read_bytes()
    with file.open("r+b") as rows:
        for at in range(4096 + 2000, len(good), 4096):
            rows.seek(at)
            rows.write(b"damage")
    try:
        failed = leads.hearth(*QUICK, "--dataset", "half", *STRATEGIES["diskgnn"], *APART,
                              "--seed", "5", code=1)
        assert "host-c" in failed.err and "damaged" in failed.err, failed
        found = damaged.hearth("dataset", "verify", "half", code=1)
        assert "node.features.npy" in found.err
    finally:
        file.write_bytes(good)
    assert leads.json(*QUICK, "--dataset", "half", *STRATEGIES["diskgnn"], *APART,
                      "--seed", "5")["state"] == "SUCCEEDED"
