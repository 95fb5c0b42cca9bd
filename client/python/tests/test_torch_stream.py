"""hearth.torch where the daemon is elsewhere: the same batches, by a stream."""

from __future__ import annotations

import gc
import os
import threading
import time

import pytest

from test_torch_breaks import run_program, x_of
from test_torch_loader import (Graph, code_of_child, hearth, loader_of, same,  # noqa: F401
                               start, torch, wait_until)
from test_torch_memory import LARGE, released

import grpc  # noqa: E402

from hearth.torch.stream import StreamWire  # noqa: E402


@pytest.fixture
def far(start):  # noqa: F811
    """Starts a daemon elsewhere."""
    return lambda *graph, **more: start(*graph, **more, is_elsewhere=True)


@pytest.mark.parametrize("graph", [Graph(), Graph(dim=LARGE), Graph(is_typed=True)],
                         ids=["small", "large", "typed"])
@pytest.mark.parametrize("layout", ["pyg", "layers", "tensors"])
def test_batches_are_those_of_the_socket(start, far, graph, layout):  # noqa: F811
    def taken(client):
        with loader_of(client, layout=layout) as loader:
            return [flat(batch) for _ in range(2) for batch in loader]

    def flat(batch):
        values = batch if isinstance(batch, dict) else (
            vars(batch) if layout == "layers" else batch.to_dict())
        found = {}

        def add(name, value):
            if torch.is_tensor(value):
                found[name] = value.clone()
            elif isinstance(value, (dict, list, tuple)):
                for key, one in (value.items() if isinstance(value, dict) else enumerate(value)):
                    add(f"{name} {key}", one)
            else:
                found[name] = value
        add("", values)
        return found

    feed, client = far(graph)
    by_stream = taken(client)
    by_socket = taken(hearth.Client(f"unix:{os.path.dirname(feed.path)}/hearth.sock"))
    assert len(by_stream) == len(by_socket) == 14
    for one, other in zip(by_stream, by_socket):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert torch.equal(value, other[name]) if torch.is_tensor(value) else (
                value == other[name]), name
    wait_until(lambda: len(feed.messages("bye")) == 2 and feed.held == 0)


def test_slots_go_back_when_the_last_tensor_dies(far):
    feed, client = far(Graph(batches={"train": 40, "valid": 1, "test": 1}))
    iterator = iter(loader_of(client))
    batch = next(iterator)
    view, y = batch.x[2:3].t(), batch.y
    del batch
    wait_until(lambda: feed.held == 4)
    assert released(feed) == []
    del y
    wait_until(lambda: len(released(feed)) == 1)
    same(view, x_of(feed, 0)[2:3].T)
    del view
    assert len(list(iterator)) == 39
    wait_until(lambda: feed.held == 0)
    assert feed.last_slot < 20


def test_whatever_a_script_writes_the_next_batch_is_the_daemons(far, caplog):
    feed, client = far(Graph(dim=LARGE, batches={"train": 20, "valid": 1, "test": 1}))
    for number, batch in enumerate(loader_of(client)):
        same(batch.x, x_of(feed, number))
        batch.x.zero_()
        batch.edge_index[:] = 0
        del batch
    # Its own memory: no copies.
    assert number == 19 and caplog.records == []


def test_kept_batches_do_not_stop_the_daemon(far):
    feed, client = far(credits=3)
    loader = loader_of(client)
    kept = list(loader)
    for number, batch in enumerate(kept):
        same(batch.x, x_of(feed, number))
    loader.close()
    # The stream ends though there are tensors; they stay.
    wait_until(lambda: not feed.sessions[0].is_alive())
    same(kept[0].x, x_of(feed, 0))


def test_break_and_the_next_epoch(far):
    feed, client = far()
    loader = loader_of(client)
    for epoch, batch in enumerate(map(next, map(iter, [loader] * 3))):
        same(batch.x, x_of(feed, 0, epoch))
    valid = loader_of(client, split="valid")
    assert len(list(valid)) == 3 and len(list(loader)) == 7 and len(feed.specs) == 1


@pytest.mark.parametrize("kills, pause", [(range(7), 0), ([3], 0.3)])
def test_a_loader_outlives_its_daemon(far, kills, pause):
    feed, client = far()
    kept, restarts = [], [threading.Timer(pause, feed.start) for _ in kills]
    for number, batch in enumerate(loader_of(client)):
        same(batch.x, x_of(feed, number))
        kept = [*kept[-1:], batch]
        if number in kills:
            feed.kill()
            restarts[-1].start()
            if not pause:
                restarts.pop().join()
    assert number == 6 and len(feed.specs) == 1
    for place, batch in zip((5, 6), kept):
        same(batch.x, x_of(feed, place))
    for restart in restarts:
        restart.join()


def test_a_client_that_is_closed_leaves_the_stream_alone(far):
    feed, client = far()
    loader = loader_of(client)
    iterator = iter(loader)
    next(iterator)
    client.close()
    assert len(list(iterator)) == 6
    loader.close()
    wait_until(lambda: feed.messages("bye"))


def test_a_refused_stream_raises_why(far):
    feed, client = far()
    loader = loader_of(client)
    iterator = iter(loader)
    next(iterator)
    feed.is_slow = True
    feed.refusal = grpc.StatusCode.UNAUTHENTICATED, "the token was revoked"
    feed.sessions[0].connection.shutdown(2)
    with pytest.raises(hearth.HearthError, match="was revoked") as refused:
        for _ in range(9):
            next(iterator)
    assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED
    # The next iteration attaches again.
    feed.refusal, feed.is_slow = None, False
    assert len(list(loader)) == 7


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED])
def test_a_stream_that_breaks_is_made_again(far, code):
    feed, client = far()
    iterator = iter(loader_of(client))
    next(iterator)
    feed.refusal = code, "stopping"
    feed.sessions[0].connection.shutdown(2)
    for number, batch in enumerate(iterator, 1):
        same(batch.x, x_of(feed, number))
    assert number == 6 and len(feed.sessions) == 2


def test_the_error_of_a_job_is_raised(far):
    feed, client = far()
    iterator = iter(loader_of(client))
    kept = next(iterator)
    feed.is_slow = True
    feed.errors.append((8, "no memory"))
    with pytest.raises(hearth.JobFailed, match="feed-1: no memory"):
        for _ in range(9):
            next(iterator)
    same(kept.x, x_of(feed, 0))


def test_a_slot_that_has_no_memory_here(far, monkeypatch):
    _, client = far()

    def refuse(*_):
        raise OSError(12, "no memory here")

    monkeypatch.setattr(StreamWire, "_take", refuse)
    with pytest.raises(OSError, match="no memory here"):
        len(loader_of(client))


def test_children_of_a_fork_leave_the_stream_alone(far):
    feed, client = far()
    loader = loader_of(client)
    iterator = iter(loader)
    kept = [next(iterator)]
    assert code_of_child(loader, iterator, kept) == 0
    assert released(feed) == [] and feed.messages("close") == []
    same(kept[0].x, x_of(feed, 0))
    assert len(list(iterator)) == 6


def test_streams_leave_no_descriptor_and_no_thread(far):
    feed, client = far()
    assert len(list(loader_of(client))) == 7

    def counts():
        gc.collect()
        return (sum("socket" in os.readlink(f"/proc/self/fd/{one}")
                    for one in os.listdir("/proc/self/fd")
                    if os.path.exists(f"/proc/self/fd/{one}")),
                sum(thread.name == "hearth feed" for thread in threading.enumerate()))

    for _ in range(3):
        with loader_of(client) as loader:
            next(iter(loader))
    wait_until(lambda: counts()[1] == 0)
    before = counts()[0]
    for _ in range(5):
        with loader_of(client) as loader:
            next(iter(loader))
    wait_until(lambda: counts()[1] == 0 and counts()[0] <= before)


def test_an_interrupt_ends_the_iterator_and_the_loader_goes_on(tmp_path):
    program = run_program(tmp_path, """
        iterator = iter(loader)
        next(iterator)
        feed.is_slow = True
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        try:
            for batch in iterator:
                pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(loader.state_dict()["epoch"], list(iterator))
        feed.is_slow = False
        print(len(list(loader)))
    """, is_elsewhere=True)
    out, err = program.communicate(timeout=60)
    # The end of the program says bye.
    assert out.splitlines() == ["interrupted", "0 []", "7", "1 []"], err
    assert program.returncode == 0 and "Exception ignored" not in err
