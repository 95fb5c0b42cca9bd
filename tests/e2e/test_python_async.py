"""The asyncio client against the real daemon: many jobs beside each other, kills, cancellation."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from daemon import TIRELESS
from jobs import LONG_EPOCHS, LONG_OPTIONS as LONG, QUICK_OPTIONS as QUICK

pytest.importorskip("grpc", reason="grpcio is not installed")
sys.path.append(str(Path(__file__).parents[2] / "client/python"))

import hearth  # noqa: E402
from hearth.jobs import EpochFinished, JobState  # noqa: E402
from hearth.sweeps import SweepState  # noqa: E402


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    return daemon


def with_client(daemon, program):
    async def main():
        async with hearth.AsyncClient(daemon.address) as client:
            return await program(client)
    return asyncio.run(main())


def test_jobs_beside_each_other_are_those_of_the_blocking_client(daemon):
    async def program(client):
        jobs = await asyncio.gather(*(client.train(QUICK, seed=seed) for seed in (1, 2, 3)))
        return await asyncio.gather(*(job.result() for job in jobs))

    reports = with_client(daemon, program)
    with hearth.Client(daemon.address) as client:
        blocking = [client.train(QUICK, seed=seed).result() for seed in (1, 2, 3)]
    assert [one.loss_digest for one in reports] == [one.loss_digest for one in blocking]


def test_a_watch_outlives_kill_9_and_sigterm(fresh, undisturbed):
    async def program(client):
        job = await client.train(LONG)
        events, kills = [], 0
        async for event in job.watch():
            events.append(event)
            if isinstance(event, EpochFinished) and kills < 3:
                (fresh.stop if kills == 1 else fresh.kill)()
                await asyncio.to_thread(fresh.start)
                kills += 1
        assert kills == 3
        assert (await job.result()).loss_digest == undisturbed["loss_digest"]
        return events

    events = with_client(fresh, program)
    sequences = [event.sequence for event in events]
    assert sequences == sorted(set(sequences))
    assert [event.epoch.epoch for event in events if isinstance(event, EpochFinished)] == list(
        range(1, LONG_EPOCHS + 1))


def test_a_cancelled_task_leaves_its_job_alone(daemon):
    async def program(client):
        job = await client.train(LONG)
        waiting = asyncio.create_task(job.wait())
        async for event in job.watch():
            if isinstance(event, EpochFinished):
                break
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not (await job.refresh()).state.has_ended
        await job.cancel()
        assert (await job.wait()).state is JobState.CANCELLED

    with_client(daemon, program)


def test_a_sweep_and_datasets(daemon, graph_folder):
    async def program(client):
        dataset = await client.import_dataset("again", graph_folder)
        assert (await dataset.verify()).bytes > 0
        sweep = await client.sweep(QUICK, dataset="again", space={"lr": [0.01, 0.001]},
                                   algorithm="grid")
        events = [event async for event in sweep.watch()]
        assert events[-1].state is SweepState.DONE
        best = await sweep.best()
        assert (await client.evaluate(best.best_job)).test_metric == best.test_metric
        await sweep.delete()
        await dataset.delete()
        return {one.name for one in await client.datasets()}

    assert with_client(daemon, program) == {"planted"}
