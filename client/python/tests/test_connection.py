"""Calls and watches of a daemon that goes away, comes back, refuses or does not answer."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

import grpc  # noqa: E402
from google.protobuf.empty_pb2 import Empty  # noqa: E402

import hearth  # noqa: E402
from fake_daemon import Refusal  # noqa: E402
from hearth import connection  # noqa: E402
from hearth.jobs import JobState, Progressed, StateChanged  # noqa: E402
from hearth.sweeps import SweepState, SweepStateChanged  # noqa: E402
from hearth.v1 import jobs_pb2, sweeps_pb2  # noqa: E402

SUBMITTED = {"dataset": "papers", "epochs": 2}


def queued(request):
    return jobs_pb2.Job(id="train-1", state="QUEUED", spec=request.spec)


def state_event(sequence, state):
    return jobs_pb2.JobEvent(sequence=sequence, state={"state": state})


def progress_event(sequence):
    return jobs_pb2.JobEvent(sequence=sequence, progress={"phase": "training", "done": sequence})


class Failing:
    """Fails so many times before it answers."""

    def __init__(self, times, code, then):
        self.left = times
        self._code = code
        self._then = then

    def __call__(self, request):
        self.left -= 1
        if self.left >= 0:
            raise Refusal(self._code, "gone")
        return self._then(request)


def test_a_submission_is_repeated_with_its_request_id(daemon):
    daemon.answers["SubmitJob"] = Failing(3, grpc.StatusCode.UNAVAILABLE, queued)
    with hearth.Client(daemon.address) as client:
        assert client.train(SUBMITTED).id == "train-1"
        client.train(SUBMITTED)
    first, second = daemon.requests[:4], daemon.requests[4:]
    assert len({request.request_id for request in first}) == 1
    assert len({request.request_id for request in daemon.requests}) == 2
    assert all(len(request.request_id) == 36 for request in second)


def test_resumptions_deletions_and_sweeps_have_request_ids(daemon):
    daemon.answers["ResumeJob"] = queued
    daemon.answers["DeleteJob"] = daemon.answers["DeleteSweep"] = Failing(
        1, grpc.StatusCode.UNAVAILABLE, lambda _: Empty())
    daemon.answers["SubmitSweep"] = lambda request: sweeps_pb2.Sweep(id="sweep-1",
                                                                     state="SWEEP_RUNNING")
    with hearth.Client(daemon.address) as client:
        client.resume("train-1")
        client.delete("train-1")
        client.sweep_delete("sweep-1")
        client.sweep(SUBMITTED, space={"lr": [0.1, 0.2]})
    ids = [request.request_id for request in daemon.requests]
    assert all(ids)
    # The deletion that failed the first time.
    assert ids[1] == ids[2] and len(set(ids)) == len(ids) - 1


def test_a_call_waits_for_a_daemon_that_restarts(daemon):
    daemon.answers["GetJob"] = lambda request: jobs_pb2.Job(id=request.id, state="RUNNING")
    with hearth.Client(daemon.address) as client:
        client.job("train-1")
        daemon.stop()
        threading.Timer(0.5, daemon.start).start()
        assert client.job("train-1").state is JobState.RUNNING


def test_patience_has_an_end(daemon):
    daemon.stop()
    with hearth.Client(daemon.address, patience=0.2) as client:
        with pytest.raises(hearth.Unavailable) as away:
            client.jobs()
    assert away.value.code == grpc.StatusCode.UNAVAILABLE
    assert f"hearthd at {daemon.address}" in str(away.value)
    daemon.start()


def test_a_daemon_that_drains_says_so(daemon):
    daemon.answers["SubmitJob"] = Failing(99, grpc.StatusCode.UNAVAILABLE, queued)
    with hearth.Client(daemon.address, patience=0.2) as client:
        with pytest.raises(hearth.Unavailable, match="gone"):
            client.train(SUBMITTED)


def test_a_call_that_takes_too_long(daemon):
    done = threading.Event()
    daemon.answers["GetJob"] = lambda _: done.wait(60) and jobs_pb2.Job()
    with hearth.Client(daemon.address, timeout=0.2, patience=0.0) as client:
        with pytest.raises(hearth.Unavailable, match="does not answer") as late:
            client.job("train-1")
    assert late.value.code == grpc.StatusCode.DEADLINE_EXCEEDED
    done.set()


def test_fields_at_fault(daemon):
    def refuse(_):
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "train.data.batch_size: must be ...",
                      [("train.data.batch_size", "must be at least " + "1" * 200),
                       ("train.trains[0].adam.learning_rate", "must be above 0, not -1"),
                       ("priority", "must be at most 100")])

    daemon.answers["SubmitJob"] = refuse
    with hearth.Client(daemon.address) as client:
        with pytest.raises(hearth.InvalidRequest) as refused:
            client.train(SUBMITTED)
    error = refused.value
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT
    assert error.field == "batch_size"
    assert [violation.field for violation in error.violations] == ["batch_size", "lr", "priority"]
    assert error.message.endswith("lr: must be above 0, not -1; priority: must be at most 100")
    # Answered calls are not repeated.
    assert len(daemon.requests) == 1


@pytest.mark.parametrize("code, kind", [
    (grpc.StatusCode.NOT_FOUND, hearth.NotFound),
    (grpc.StatusCode.INVALID_ARGUMENT, hearth.InvalidRequest),
    (grpc.StatusCode.FAILED_PRECONDITION, hearth.HearthError),
    (grpc.StatusCode.UNIMPLEMENTED, hearth.HearthError),
])
def test_errors_by_code(daemon, code, kind):
    daemon.answers["GetJob"] = Failing(1, code, queued)
    with hearth.Client(daemon.address) as client:
        with pytest.raises(kind) as refused:
            client.job("train-1")
    assert (refused.value.code, refused.value.field) == (code, None)
    assert "gone" in refused.value.message


def test_a_watch_goes_on_after_the_last_event_seen(daemon):
    parts = [[state_event(1, "QUEUED"), state_event(2, "RUNNING"), progress_event(3)],
             # An event seen before, and a gap, as after events that are no longer kept.
             [progress_event(3), progress_event(7)],
             [state_event(8, "QUEUED"), state_event(9, "SUCCEEDED")]]

    def watch(request):
        events = parts[len(daemon.requests) - 1]
        yield from events
        if events[-1].state.state != jobs_pb2.SUCCEEDED:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "gone")

    daemon.answers["WatchJob"] = watch
    with hearth.Client(daemon.address) as client:
        events = list(client.watch("train-1"))
    assert [event.sequence for event in events] == [1, 2, 3, 7, 8, 9]
    assert [request.from_sequence for request in daemon.requests] == [1, 4, 8]
    assert isinstance(events[2], Progressed) and events[2].done == 3
    assert isinstance(events[-1], StateChanged) and events[-1].state is JobState.SUCCEEDED


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

    with hearth.Client(daemon.address) as client:
        states = []
        for event in client.watch("train-1"):
            states.append(event.state)
            if event.sequence == 1:
                threading.Thread(target=restart).start()
    ended.set()
    assert states == [JobState.RUNNING, JobState.SUCCEEDED]


def test_a_watch_that_ends_early_asks_whether_that_was_the_end(daemon):
    states = iter(["RUNNING", "CANCELLED"])
    daemon.answers["WatchJob"] = lambda request: iter(())
    daemon.answers["GetJob"] = lambda request: jobs_pb2.Job(id=request.id, state=next(states))
    with hearth.Client(daemon.address) as client:
        assert list(client.watch("train-1", 12)) == []
    watches = [request.from_sequence for request in daemon.requests
               if isinstance(request, jobs_pb2.WatchJobRequest)]
    assert watches == [12, 12]


def test_a_watch_that_cannot_ask_goes_on(daemon):
    ended = jobs_pb2.Job(state="SUCCEEDED")
    daemon.answers["WatchJob"] = lambda request: iter(())
    daemon.answers["GetJob"] = Failing(2, grpc.StatusCode.UNAVAILABLE, lambda _: ended)
    with hearth.Client(daemon.address, patience=0.0) as client:
        assert list(client.watch("train-1")) == []
    assert len(daemon.requests) == 6


def test_a_watch_of_nothing(daemon):
    daemon.answers["WatchJob"] = Failing(1, grpc.StatusCode.NOT_FOUND, lambda _: iter(()))
    with hearth.Client(daemon.address) as client:
        with pytest.raises(hearth.NotFound):
            next(client.watch("train-1"))


def test_a_watch_is_given_up(daemon):
    daemon.answers["WatchJob"] = Failing(99, grpc.StatusCode.UNAVAILABLE, lambda _: iter(()))
    with hearth.Client(daemon.address, watch_patience=0.3) as client:
        with pytest.raises(hearth.Unavailable, match="gone"):
            list(client.watch("train-1"))
    assert len(daemon.requests) >= 2


def test_a_watch_that_is_left_ends_its_stream(daemon):
    ended = threading.Event()

    def watch(_):
        try:
            for sequence in range(1, 10**9):
                yield progress_event(sequence)
        finally:
            ended.set()

    daemon.answers["WatchJob"] = watch
    with hearth.Client(daemon.address) as client:
        watched = client.watch("train-1")
        assert next(watched).sequence == 1
        del watched
        assert ended.wait(60)


def test_sweeps_are_watched_so_too(daemon):
    states = {1: "SWEEP_RUNNING", 2: "SWEEP_PAUSED", 3: "SWEEP_DONE"}

    def watch(request):
        yield sweeps_pb2.SweepEvent(sequence=request.from_sequence,
                                    state={"state": states[request.from_sequence]})
        if request.from_sequence < 3:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "gone")

    daemon.answers["WatchSweep"] = watch
    with hearth.Client(daemon.address) as client:
        events = list(client.sweep_watch("sweep-1"))
    assert all(isinstance(event, SweepStateChanged) for event in events)
    assert [event.state for event in events] == [SweepState.RUNNING, SweepState.PAUSED,
                                                 SweepState.DONE]


def test_silence_is_told_and_its_end(daemon, monkeypatch):
    monkeypatch.setattr(connection, "_SILENCE_LIMIT_SECONDS", 0.1)
    told: list[float] = []
    silent = threading.Event()

    def on_silence(seconds):
        told.append(seconds)
        silent.set()

    daemon.answers["GetJob"] = lambda _: silent.wait(60) and jobs_pb2.Job(state="RUNNING")
    with hearth.Client(daemon.address, on_silence=on_silence) as client:
        client.job("train-1")
        assert len(told) == 2 and told[0] >= 0.1 and told[1] == 0.0
        # Now the daemon answers at once.
        client.job("train-1")
    assert len(told) == 2


def test_silence_of_a_watch_and_the_log(daemon, monkeypatch, caplog):
    monkeypatch.setattr(connection, "_SILENCE_LIMIT_SECONDS", 0.1)

    def watch(request):
        if request.from_sequence == 1:
            yield state_event(1, "RUNNING")
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "gone")
        yield state_event(2, "SUCCEEDED")

    daemon.answers["WatchJob"] = watch
    with hearth.Client(daemon.address) as client:
        for event in client.watch("train-1"):
            if event.sequence == 1:
                daemon.stop()
                threading.Timer(0.5, daemon.start).start()
    assert [record.name for record in caplog.records] == ["hearth", "hearth"]
    assert f"hearthd at {daemon.address} has not answered for 0 s" in caplog.text
    assert "answers again" in caplog.text


def test_the_address(monkeypatch):
    monkeypatch.delenv("HEARTH_SERVER", raising=False)
    monkeypatch.setenv("HEARTH_HOME", "/nonexistent")
    monkeypatch.setenv("HEARTH_CONTEXTS", "/nonexistent")
    assert hearth.Client().server == "127.0.0.1:7600"
    monkeypatch.setenv("HEARTH_SERVER", "gpu-box:7601")
    assert hearth.Client().server == "gpu-box:7601"
    assert hearth.Client("other:1").server == "other:1"
