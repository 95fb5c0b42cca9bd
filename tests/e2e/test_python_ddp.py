"""Several processes that share the batches of one feed, by DistributedDataParallel over gloo."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import HEARTH, PATIENCE_SECONDS, Daemon, run, wait_for

pytest.importorskip("grpc", reason="grpcio is not installed")
pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

_TRAINER = Path(__file__).with_name("ddp_trainer.py")
# Of 1800 training seeds: the last batch has 1800 - 17 * 105 = 15.
LOADER = {"dataset": "planted", "num_neighbors": [4, 4], "batch_size": 105}
BATCHES = 18


class Trainer:
    """A running ddp_trainer.py, and what it prints."""

    def __init__(self, options, log):
        self.log = log
        with open(log, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(_TRAINER), json.dumps(options)], stdout=subprocess.PIPE, stderr=errors, text=True)

    def line(self):
        return json.loads(self.process.stdout.readline())


def results_of(trainers):
    """What they print until their end, which must be a good one."""
    try:
        outs = [one.process.communicate(timeout=PATIENCE_SECONDS)[0] for one in trainers]
        assert {one.process.returncode for one in trainers} == {0}
    except BaseException as error:
        logs = "\n".join(one.log.read_text() for one in trainers)
        raise AssertionError(f"{error!r}: {logs}") from error
    return [[json.loads(line) for line in out.splitlines()] for out in outs]


@pytest.fixture
def begin(daemon, tmp_path):
    """Starts trainers, which share batches if there are several."""
    with contextlib.ExitStack() as stack:
        count = 0

        def begin_all(world_size, each=lambda rank: {}, **options):
            nonlocal count
            count += 1
            trainers = [Trainer({
                "server": f"unix:{daemon.data_dir}/hearth.sock", "world_size": world_size,
                "rank": rank, "rendezvous": str(tmp_path / f"meet{count}"), "loader": LOADER,
                "epochs": 1, **options, **each(rank)}, tmp_path / f"{count}-{rank}.log")
                for rank in range(world_size)]
            for trainer in trainers:
                stack.callback(trainer.process.wait)
                stack.callback(trainer.process.kill)
            return trainers

        yield begin_all


def losses_of(all_results):
    """The loss of each whole batch."""
    return [sum(one["loss"] * one["scale"] for one in step) / len(step)
            for step in zip(*([one for one in results if "loss" in one]
                              for results in all_results))]


def test_trainers_together_are_one(daemon, begin):
    (alone,) = results_of(begin(1, epochs=2))
    together = results_of(begin(2, epochs=2))
    (job,) = {results[0]["job"] for results in together}
    assert {(results[0]["batches"], results[0]["seeds"]) for results in together} == {
        (BATCHES, 1800)}
    seeds = [[one["seeds"] for one in results if "seeds" in one][1:] for results in together]
    assert [sum(step) for step in zip(*seeds)] == 2 * ([105] * 17 + [15])
    # Batches of an odd number of seeds cannot be shared equally.
    assert {one["scale"] for results in together for one in results if "scale" in one} - {1}
    losses = losses_of([alone])
    assert losses_of(together) == pytest.approx(losses, abs=1e-5)
    assert losses[-1] < losses[0] and len(losses) == 2 * BATCHES
    parameters = [results[-1]["parameters"] for results in [alone, *together]]
    assert parameters[1:] == pytest.approx(parameters[:1] * 2, rel=1e-5)
    daemon.wait_for_state(job, "SUCCEEDED")


@pytest.fixture
def two_servers(daemon, graph_folder, tmp_path):
    """Addresses of two daemons that do not know of each other, with equal datasets."""
    with contextlib.closing(Daemon(tmp_path / "other")) as other:
        other.import_graph("planted", graph_folder)
        yield [f"unix:{one.data_dir}/hearth.sock" for one in (daemon, other)]


def test_trainers_of_two_daemons_are_those_of_one(begin, two_servers):
    """In every bit of every batch and loss."""
    at_one = results_of(begin(2, epochs=2))
    at_two = results_of(begin(2, epochs=2, each=lambda rank: {"server": two_servers[rank]}))
    for results in (*at_one, *at_two):
        del results[0]["job"]
    assert at_two == at_one


def test_two_trainers_at_each_of_two_daemons(begin, two_servers):
    at_one = results_of(begin(4))
    at_two = results_of(begin(4, each=lambda rank: {"server": two_servers[rank // 2]}))
    for results in (*at_one, *at_two):
        del results[0]["job"]
    assert at_two == at_one


def test_trainers_that_share_daemons_unequally_are_told(begin, two_servers):
    """As those whose ranks take turns at the daemons: the order of shards would be another."""
    for servers in ([0, 0, 1], [0, 1, 0, 1]):
        trainers = begin(len(servers),
                         each=lambda rank: {"server": two_servers[servers[rank]]})
        for trainer in trainers:
            assert trainer.process.wait(PATIENCE_SECONDS) != 0
            assert "do not share equally" in trainer.log.read_text()


def test_trainers_of_daemons_with_other_datasets_are_told(begin, two_servers, daemon, tmp_path):
    other = {"dataset": "made", "num_neighbors": [4], "batch_size": 8}
    for seed, server in enumerate(two_servers):
        made = run([HEARTH, "--server", server, "dataset", "generate", "made", "--nodes", "100",
                    "--edges", "500", "--dim", "4", "--seed", str(seed)])
        assert made.code == 0, made
    trainers = begin(2, loader=other, each=lambda rank: {"server": two_servers[rank]})
    for trainer in trainers:
        assert trainer.process.wait(PATIENCE_SECONDS) != 0
        assert "made is not the same at all daemons" in trainer.log.read_text()


def test_trainers_share_nodes_of_their_own(begin):
    nodes = [*range(400, 0, -2)]
    loader = {**LOADER, "input_nodes": nodes}
    (alone,) = results_of(begin(1, loader=loader))
    together = results_of(begin(2, loader=loader))
    assert {(results[0]["batches"], results[0]["seeds"]) for results in together} == {(2, 200)}
    assert losses_of(together) == pytest.approx(losses_of([alone]), abs=1e-5)
    places = []
    for one in (one for results in together for one in results if "places" in one):
        assert [nodes[place] for place in one["places"]] == one["ids"]
        places += one["places"]
    assert sorted(places) == [*range(200)]


def nodes_of(results):
    return [one["nodes"] for one in results if "nodes" in one]


def test_trainers_go_on_from_their_places(daemon, begin):
    """Here, and one of them as if elsewhere."""
    servers = [f"unix:{daemon.data_dir}/hearth.sock", daemon.address]
    whole = results_of(begin(2, apart=True))
    states = [next(one["state"] for one in results if "state" in one
                   and one["state"]["next_batch"] == 5) for results in whole]
    rest = results_of(begin(2, apart=True, each=lambda rank: {
        "state": states[rank], "server": servers[rank]}))
    assert [nodes_of(results)[5:] for results in whole] == [nodes_of(results) for results in rest]
    assert [len(nodes_of(results)) for results in rest] == [BATCHES - 5] * 2


def test_a_trainer_that_is_killed_ends_the_pass_of_the_others(daemon, begin):
    staying, killed = begin(2, apart=True, each=lambda rank: {"pauses": [2 * rank, 1000]})
    job = killed.line()["job"]
    for _ in range(2):
        killed.line()
    killed.process.kill()
    (results,) = results_of([staying])
    assert results[-1] == {"error": "ABORTED"} and len(results) < BATCHES
    daemon.hearth("job", "cancel", job)


def test_a_trainer_may_take_long(daemon, begin):
    """Longer than the daemon waits for a client: the job waits, and goes on."""
    whole = results_of(begin(2, apart=True))
    paused = results_of(begin(2, apart=True, each=lambda rank: {"pauses": [2 * rank, 15]}))
    assert [nodes_of(one) for one in paused] == [nodes_of(one) for one in whole]
    assert "WAITING" in daemon.log


def test_trainers_validate_amid_a_pass(begin):
    whole = results_of(begin(2, apart=True))
    both = results_of(begin(2, validates=4))
    assert [nodes_of(one) for one in both] == [nodes_of(one) for one in whole]
    assert sum(one["valid_seeds"] for results in both for one in results
               if "valid_seeds" in one) == 600
