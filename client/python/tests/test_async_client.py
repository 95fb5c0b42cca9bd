"""The asyncio client: the same surface, the same patience, and cancellation."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

import grpc  # noqa: E402
from google.protobuf.empty_pb2 import Empty  # noqa: E402

import hearth  # noqa: E402
from fake_daemon import Refusal  # noqa: E402
from hearth import async_client, client  # noqa: E402
from hearth.jobs import JobState  # noqa: E402
from hearth.v1 import datasets_pb2, jobs_pb2, sweeps_pb2  # noqa: E402

SUBMITTED = {"dataset": "papers", "epochs": 2}


def queued(request):
    return jobs_pb2.Job(id="train-1", state="QUEUED", spec=request.spec)


def state_event(sequence, state):
    return jobs_pb2.JobEvent(sequence=sequence, state={"state": state})


def with_client(daemon, program, **options):
    async def main():
        async with hearth.AsyncClient(daemon.address, **options) as made:
            return await program(made)
    return asyncio.run(main())


def names_of(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("blocking, awaited", [
    (client.Client, async_client.AsyncClient), (client.Job, async_client.AsyncJob),
    (client.Dataset, async_client.AsyncDataset), (client.Sweep, async_client.AsyncSweep)])
def test_both_clients_have_one_surface(blocking, awaited):
    # Batches are taken by threads alone.
    assert names_of(blocking) - {"stream_feed"} == names_of(awaited)
    for name in names_of(awaited):
        one, other = getattr(blocking, name), getattr(awaited, name)
        if inspect.isfunction(one) and name != "close":
            assert list(inspect.signature(one).parameters) == list(
                inspect.signature(other).parameters)
            assert one.__doc__ == other.__doc__ and one.__doc__, name
    assert "id" not in inspect.signature(client.Job.cancel).parameters


def test_calls_and_handles(daemon):
    daemon.answers.update(
        SubmitJob=queued, CancelJob=lambda _: jobs_pb2.Job(id="train-1", state="CANCELLED"),
        GetSweep=lambda _: sweeps_pb2.Sweep(id="sweep-1", state="SWEEP_RUNNING"),
        GetDataset=lambda _: datasets_pb2.Dataset(name="papers"),
        DeleteDataset=lambda _: Empty())

    async def program(made):
        job = await made.train(SUBMITTED)
        assert (job.id, job.options["epochs"]) == ("train-1", "2")
        assert (await job.cancel()).state is JobState.CANCELLED
        dataset = await made.dataset("papers")
        await dataset.delete()
        with pytest.raises(hearth.HearthError, match="no trial with a result"):
            await (await made.sweep_show("sweep-1")).best()
        with pytest.raises(hearth.InvalidRequest, match="did you mean epochs?"):
            await made.train({**SUBMITTED, "epoch": 3})

    with_client(daemon, program)
    (deleted,) = (one for one in daemon.requests
                  if isinstance(one, datasets_pb2.DeleteDatasetRequest))
    assert deleted.name == "papers"


def test_a_submission_is_repeated_with_its_request_id(daemon):
    left = [grpc.StatusCode.UNAVAILABLE] * 3

    def answer(request):
        if left:
            raise Refusal(left.pop(), "gone")
        return queued(request)

    daemon.answers["SubmitJob"] = answer
    with_client(daemon, lambda made: made.train(SUBMITTED))
    assert len(daemon.requests) == 4
    assert len({request.request_id for request in daemon.requests}) == 1


def test_fields_at_fault(daemon):
    def refuse(_):
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "no",
                      [("train.data.batch_size", "must be at least 1")])

    daemon.answers["SubmitJob"] = refuse
    with pytest.raises(hearth.InvalidRequest) as refused:
        with_client(daemon, lambda made: made.train(SUBMITTED))
    assert refused.value.field == "batch_size"


def test_patience_has_an_end(daemon):
    daemon.stop()
    with pytest.raises(hearth.Unavailable, match="hearthd at"):
        with_client(daemon, lambda made: made.jobs(), patience=0.2)
    daemon.start()


# A daemon that shuts down cancels streams; that is no cancellation of the task.
@pytest.mark.parametrize("code", ["UNAVAILABLE", "CANCELLED", "UNKNOWN"])
def test_a_watch_goes_on_after_the_last_event_seen(daemon, code):
    parts = [[state_event(1, "QUEUED"), state_event(2, "RUNNING")],
             [state_event(2, "RUNNING"), state_event(5, "QUEUED")],
             [state_event(6, "SUCCEEDED")]]

    def watch(request):
        events = parts[len(daemon.requests) - 1]
        yield from events
        if events[-1].state.state != jobs_pb2.SUCCEEDED:
            raise Refusal(grpc.StatusCode[code], "gone")

    daemon.answers["WatchJob"] = watch

    async def program(made):
        return [event.sequence async for event in made.watch("train-1")]

    assert with_client(daemon, program) == [1, 2, 5, 6]
    assert [request.from_sequence for request in daemon.requests] == [1, 3, 6]


def test_a_watch_goes_on_through_a_restart(daemon):
    ended = threading.Event()

    def watch(request):
        if request.from_sequence == 1:
            yield state_event(1, "RUNNING")
            ended.wait(60)
        yield state_event(request.from_sequence, "SUCCEEDED")

    daemon.answers["WatchJob"] = watch

    def restart():
        daemon.stop()
        daemon.start()

    async def program(made):
        states = []
        async for event in made.watch("train-1"):
            states.append(event.state)
            if event.sequence == 1:
                threading.Thread(target=restart).start()
        return states

    assert with_client(daemon, program) == [JobState.RUNNING, JobState.SUCCEEDED]
    ended.set()


def test_a_task_that_is_cancelled_cancels_its_call(daemon):
    began, done = threading.Event(), threading.Event()

    def answer(_):
        began.set()
        done.wait(60)
        return jobs_pb2.Job()

    daemon.answers["GetJob"] = answer

    async def program(made):
        task = asyncio.create_task(made.job("train-1"))
        await asyncio.to_thread(began.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with_client(daemon, program)
    done.set()
    assert len(daemon.requests) == 1


def test_a_watch_that_is_cancelled_ends_its_stream(daemon):
    began, ended = threading.Event(), threading.Event()

    def watch(_):
        try:
            yield state_event(1, "RUNNING")
            began.set()
            for sequence in range(2, 10**9):
                yield state_event(sequence, "RUNNING")
        finally:
            ended.set()

    daemon.answers.update(WatchJob=watch, GetJob=lambda _: jobs_pb2.Job(state="RUNNING"))

    async def program(made):
        task = asyncio.create_task(made.wait("train-1"))
        await asyncio.to_thread(began.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with_client(daemon, program)
    assert ended.wait(60)
    assert sum(isinstance(one, jobs_pb2.WatchJobRequest) for one in daemon.requests) == 1


def test_calls_go_on_beside_a_watch(daemon):
    seen = threading.Event()

    def watch(_):
        yield state_event(1, "RUNNING")
        seen.wait(60)
        yield state_event(2, "SUCCEEDED")

    daemon.answers.update(WatchJob=watch, GetJob=lambda request: jobs_pb2.Job(
        id=request.id, state="RUNNING"))

    async def program(made):
        async for event in made.watch("train-1"):
            if event.sequence == 1:
                jobs = await asyncio.gather(*(made.job(f"train-{i}") for i in range(5)))
                assert [job.id for job in jobs] == [f"train-{i}" for i in range(5)]
                seen.set()

    with_client(daemon, program)


def test_following_a_job(daemon, capsys):
    told = []

    class Tracker:
        last_epoch = 0

        def begin(self, info):
            told.append(info.name)
            return self

        def log_epoch(self, epoch, figures):
            told.append((epoch, figures["loss"]))

        def end(self, state, facts):
            told.append(state)

    daemon.answers.update(
        GetJob=lambda _: jobs_pb2.Job(id="train-1", state="SUCCEEDED", spec={"train": {}}),
        WatchJob=lambda _: iter([
            jobs_pb2.JobEvent(sequence=1, epoch={"epoch": 1, "loss": 0.5}),
            state_event(2, "SUCCEEDED")]))

    async def program(made):
        job = await made.job("train-1")
        await job.track(Tracker())
        return await job.progress()

    assert with_client(daemon, program).state is JobState.SUCCEEDED
    assert told == ["train-1", (1, 0.5), "SUCCEEDED"]
    assert capsys.readouterr().err.splitlines() == [
        "train-1: epoch 1: loss 0.5000, 0.0 s", "train-1: succeeded"]


def test_the_blocking_client_within_an_event_loop(daemon):
    daemon.answers["WatchJob"] = lambda _: iter([state_event(1, "RUNNING"),
                                                 state_event(2, "SUCCEEDED")])

    async def program():
        with hearth.Client(daemon.address) as made:
            left = made.watch("train-1")
            assert next(left).sequence == 1
            del left
            return [event.sequence for event in made.watch("train-1")]

    assert asyncio.run(program()) == [1, 2]
