"""hearth.torch on a GPU: which copies are made, in which order, and when slots go back. CUDA is
played by the test, which says when events come."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import gc
import logging
import os
import pickle

import pytest

from test_torch_loader import (EDGE_TYPES, LAYERS, TRAIN, TYPES, VALID, Graph, hearth,  # noqa: F401
                               loader_of, same, start, torch, wait_until)

from fake_feed import FakeFeed  # noqa: E402
from hearth.torch import device_copies  # noqa: E402


class Copy:
    """A copy that a GPU makes some time: it keeps no memory from being used again."""

    def __init__(self, values):
        self.made = torch.full_like(values, -7)
        self._address, self._size = values.data_ptr(), values.nbytes

    def make(self):
        if self._size:
            read = bytearray(ctypes.string_at(self._address, self._size))
            self.made.copy_(torch.frombuffer(read, dtype=self.made.dtype).view(self.made.shape))


class FakeEvent:
    def __init__(self, cuda):
        self.cuda, self.copies, self.is_done = cuda, cuda.queue.copy(), False

    def query(self):
        return self.is_done

    def synchronize(self):
        self.cuda.calls.append("synchronize")
        self.complete()

    def complete(self):
        """All that was asked for before is done, as late as a GPU may do it."""
        for copy in self.copies:
            if copy in self.cuda.queue:
                copy.make()
                self.cuda.queue.remove(copy)
        self.is_done = True


class FakeCuda:
    """In the place of CudaCalls; `last` is the one of the newest loader."""

    registers, has_pinned, is_eager, is_awaited = True, True, False, True

    def __init__(self, device):
        type(self).last = self
        self.device = device
        self.queue, self.events, self.calls, self.pinned_sizes = [], [], [], []
        self.registered, self.unregistered = [], []
        self.is_on_stream = False

    def register(self, address, size):
        self.calls.append("register")
        if self.registers:
            self.registered.append(address)
        return self.registers

    def unregister(self, address):
        assert address in self.registered
        self.unregistered.append(address)

    def pinned(self, size):
        if not self.has_pinned:
            raise RuntimeError("out of memory")
        self.pinned_sizes.append(size)
        return torch.empty(size, dtype=torch.uint8)

    @contextlib.contextmanager
    def on_stream(self):
        self.is_on_stream = True
        yield
        self.is_on_stream = False

    def moved(self, values, waits):
        assert self.is_on_stream
        copy = Copy(values)
        self.calls.append("copy and wait" if waits else "copy")
        if self.is_eager or waits:
            copy.make()
        else:
            self.queue.append(copy)
        return copy.made

    def record(self):
        self.events.append(FakeEvent(self))
        self.calls.append("record")
        return self.events[-1]

    def hand_over(self, event, tensors):
        """The script's stream waits for the event, before the test looks."""
        assert tensors and not self.is_on_stream
        self.calls.append("hand over")
        if self.is_awaited:
            event.complete()


@pytest.fixture
def cuda(monkeypatch):
    """A class of CUDA calls, which a test may change."""
    class Cuda(FakeCuda):
        pass

    monkeypatch.setattr(device_copies, "CudaCalls", Cuda)
    for name, value in (("is_available", True), ("device_count", 2), ("current_device", 1)):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    return Cuda


def x_of(feed, number, epoch=0, split=TRAIN):
    return feed.graph.batch(split, epoch, number).arrays["x", None, None]


def released(feed):
    return [id for one in feed.messages("release") for id in one.slots]


@pytest.mark.parametrize("registers, has_pinned", [(True, True), (False, True), (False, False)])
def test_batches_are_those_of_the_cpu(start, cuda, registers, has_pinned):  # noqa: F811
    cuda.registers, cuda.has_pinned = registers, has_pinned
    feed, client = start(Graph(dim=600))
    with loader_of(client, device="cuda") as loader:
        for epoch in range(3):
            for number, batch in enumerate(loader):
                wanted = feed.graph.batch(TRAIN, epoch, number)
                for name in ("x", "edge_index", "y", "n_id", "in_degrees"):
                    same(batch[name], wanted.arrays[name, None, None])
                assert batch.num_sampled_edges == [7, 7]
            assert number == 6
    assert cuda.last.device == torch.device("cuda:1")
    wait_until(lambda: feed.held == 0)
    gc.collect()
    assert sorted(cuda.last.unregistered) == sorted(cuda.last.registered)
    assert bool(cuda.last.registered) == registers


def test_layers_and_types(start, cuda):  # noqa: F811
    cuda.is_eager = True  # Rows are chosen on the device.
    feed, client = start(Graph(is_typed=True))
    for number, batch in enumerate(loader_of(client, device="cuda:0")):
        wanted = feed.graph.batch(TRAIN, 0, number).arrays
        for i, (name, dim) in enumerate(TYPES):
            same(batch[name].x, wanted["x", None, None][wanted["rows", i, None], :dim])
            same(batch[name].n_id, wanted["n_id", i, None])
        for i, name in enumerate(EDGE_TYPES):
            same(batch[tuple(name.split(":"))].edge_index, wanted["edge_index", i, None])
    # x once, and for each type its rows, ids and degrees; edges of two types, labels, places.
    assert cuda.last.calls.count("copy") == 7 * (1 + 2 * 3 + 2 + 2)
    layers = loader_of(client, device=torch.device("cuda", 0), layout="layers")
    for number, batch in enumerate(layers):
        wanted = feed.graph.batch(TRAIN, 0, number, LAYERS).arrays
        same(batch.x, wanted["x", None, None])
        for i, layer in enumerate(batch.layers):
            same(layer.edge_index, wanted["edge_index", None, i])


def test_copies_are_a_batch_ahead_and_slots_stay_until_they_are_done(start, cuda):  # noqa: F811
    cuda.is_awaited = False
    feed, client = start(Graph(batches={"train": 12, "valid": 1, "test": 1}))
    iterator = iter(loader_of(client, device="cuda"))
    batches = [next(iterator)]
    wait_until(lambda: feed.held == 4)
    batches.append(next(iterator))
    calls = cuda.last
    # The second one waited for; the third one had come.
    assert len(calls.events) == 3 and calls.calls[-2:] == ["record", "hand over"]
    wait_until(lambda: feed.held == 4 and len(released(feed)) in (2, 4))
    done = len(released(feed)) // 2
    batches.append(next(iterator))
    assert [event.is_done for event in calls.events] == [True] * done + [False] * (4 - done)
    # The daemon keeps a credit for the next batch.
    batches.append(next(iterator))
    held = [event for event in calls.events if not event.is_done]
    assert len(held) == 3 and len(released(feed)) == 2 * (len(calls.events) - 3)
    assert (batches[-1].x == -7).all()
    held[0].complete()
    batches.append(next(iterator))
    for event in calls.events:
        event.complete()
    for number, batch in enumerate(batches):
        same(batch.x, x_of(feed, number))
    iterator.close()
    wait_until(lambda: feed.held == 0)


def test_a_batch_in_pinned_memory_leaves_its_slots_at_once(start, cuda, caplog):  # noqa: F811
    caplog.set_level(logging.INFO, "hearth")
    cuda.registers = cuda.is_awaited = False
    feed, client = start(Graph(batches={"train": 12, "valid": 1, "test": 1}))
    iterator = iter(loader_of(client, device="cuda"))
    first = next(iterator)
    wait_until(lambda: len(released(feed)) >= 2)
    calls = cuda.last
    assert not calls.events[0].is_done and calls.calls.count("register") == 1
    assert (first.x == -7).all()
    kept = [first, *iterator]
    # Two parts by turns, of which one is replaced where a batch is larger.
    assert 2 <= len(calls.pinned_sizes) <= 4
    for event in calls.events:
        assert event.is_done or event in calls.events[-2:]
        event.complete()
    for number, batch in enumerate(kept):
        same(batch.x, x_of(feed, number))
    told, = caplog.messages
    assert told.startswith("batches are copied to cuda:1 through pinned memory")


def test_without_any_pinned_memory_the_script_waits(start, cuda, caplog):  # noqa: F811
    caplog.set_level(logging.INFO, "hearth")
    cuda.registers = cuda.has_pinned = cuda.is_awaited = False
    feed, client = start()
    for number, batch in enumerate(loader_of(client, device="cuda")):
        same(batch.x, x_of(feed, number))
    assert "copy" not in cuda.last.calls and len(caplog.messages) == 1


def test_a_script_that_keeps_or_writes_batches_is_not_warned(start, cuda, caplog):  # noqa: F811
    feed, client = start(credits=3)
    kept = []
    for batch in loader_of(client, device="cuda"):
        kept.append(batch)
        batch.x.add_(0)
    for number, batch in enumerate(kept):
        same(batch.x, x_of(feed, number))
    wait_until(lambda: feed.held == 0)
    assert caplog.records == []


def test_a_break_waits_for_copies_and_the_place_is_that_of_the_script(start, cuda):  # noqa: F811
    cuda.is_awaited = False
    feed, client = start()
    loader = loader_of(client, device="cuda")
    for _ in range(3):
        iterator = iter(loader)
        next(iterator)
        wait_until(lambda: feed.held == 4)
        next(iterator)
        assert loader.state_dict()["next_batch"] == 2
        iterator.close()
        assert all(event.is_done for event in cuda.last.events)
        # The others have not been read yet.
        wait_until(lambda: feed.held <= 2)
    cuda.is_awaited = True
    loader.load_state_dict({**loader.state_dict(), "epoch": 2, "next_batch": 2})
    for number, batch in enumerate(loader, 2):
        same(batch.x, x_of(feed, number, 2))
    assert number == 6


def test_an_exception_amid_copies_leaves_a_loader_that_works(start, cuda):  # noqa: F811
    feed, client = start()
    loader = loader_of(client, device="cuda")
    first = next(iter(loader))
    moved, cuda.moved = cuda.moved, lambda self, values, waits: 1 / 0
    with pytest.raises(ZeroDivisionError):
        next(iter(loader))
    cuda.moved = moved
    cuda.on_stream = contextlib.nullcontext
    cuda.is_on_stream = True
    cuda.hand_over = lambda self, event, tensors: event.complete()
    loader.set_epoch(5)
    for number, batch in enumerate(loader):
        same(batch.x, x_of(feed, number, 5))
    loader.transform = lambda batch: batch.nothing
    with pytest.raises(AttributeError):
        list(loader)
    same(first.x, x_of(feed, 0))
    loader.close()
    wait_until(lambda: feed.held == 0)


def test_a_device_that_fails_does_not_keep_slots(start, cuda):  # noqa: F811
    feed, client = start()
    iterator = iter(loader_of(client, device="cuda"))
    next(iterator)

    def fail():
        raise RuntimeError("an illegal memory access was encountered")

    for event in cuda.last.events:
        event.query = event.synchronize = fail
    cuda.last.queue.clear()
    iterator.close()
    wait_until(lambda: feed.held == 0)


def test_nested_loaders_on_a_device(start, cuda):  # noqa: F811
    feed, client = start()
    train, valid = (loader_of(client, split=split, device="cuda") for split in ("train", "valid"))
    numbers = []
    for number, batch in enumerate(train):
        same(batch.x, x_of(feed, number))
        numbers.append(number)
        for inner, one in enumerate(valid):
            same(one.x, x_of(feed, inner, 0, VALID))
        assert inner == 2
    assert numbers == list(range(7))


def test_memory_is_awaited_while_another_looks_at_it():
    in_flight, awaited = device_copies.InFlight(), []

    class Event:
        def query(self):
            in_flight.finish()  # As another thread, or a finalizer, may do.
            assert awaited == [self]
            return False

        def synchronize(self):
            awaited.append(self)

    in_flight.add(Event(), None)
    in_flight.sweep()
    in_flight.finish()
    assert len(awaited) == 1


@pytest.mark.parametrize("awaits", [True, False])
def test_a_loader_on_a_device_outlives_its_daemon(start, cuda, awaits):  # noqa: F811
    cuda.is_awaited = awaits
    feed, client = start()
    kept = []
    for number, batch in enumerate(loader_of(client, device="cuda")):
        kept.append(batch)
        if number in (1, 2, 5):
            feed.kill()
            feed.start()
    assert number == 6 and len(feed.specs) == 1
    for event in cuda.last.events:
        event.complete()
    for number, batch in enumerate(kept):
        same(batch.x, x_of(feed, number))
    del batch
    gc.collect()
    # Slots of daemons that are gone are registered no more.
    assert len(cuda.last.registered) - len(cuda.last.unregistered) <= 10


def test_children_of_a_fork_call_nothing_of_cuda(start, cuda):  # noqa: F811
    cuda.is_awaited = False
    feed, client = start()
    loader = loader_of(client, device="cuda")
    iterator = iter(loader)
    next(iterator)
    wait_until(lambda: feed.held == 4)
    next(iterator)
    calls, gone = list(cuda.last.calls), list(cuda.last.unregistered)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            next(iterator)
        except RuntimeError as error:
            iterator.close()
            loader.close()
            del iterator, loader
            gc.collect()
            is_quiet = cuda.last.calls == calls and cuda.last.unregistered == gone
            code = 0 if is_quiet and "make the loader after the fork" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(iterator)) == 5


def test_pickles_hold_the_device(start, cuda):  # noqa: F811
    _, client = start()
    loader = loader_of(client, device="cuda:0")
    next(iter(loader))
    assert pickle.loads(pickle.dumps(loader))._device == torch.device("cuda:0")


def test_shared_maps_cannot_be_written(start, cuda):  # noqa: F811
    feed, client = start()
    loader = loader_of(client, device="cuda")
    next(iter(loader))
    slot = next(iter(loader._feed._link.slots._slots.values()))
    assert memoryview(slot.shared).readonly and not memoryview(slot.map).readonly
    with pytest.raises(TypeError):
        slot.shared[0] = 1


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
def test_the_cpu_is_a_device(start, device):  # noqa: F811
    feed, client = start()
    loader = loader_of(client, device=device)
    for number, batch in enumerate(loader):
        same(batch.x, x_of(feed, number))
    assert not any("shared" in vars(slot) for slot in loader._feed._link.slots._slots.values())


def descriptors_of_slots():
    """How many each slot's file has, among them two of the fake daemon."""
    found = collections.Counter()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # That of the folder.
            if "memfd:slot" in os.readlink(f"/proc/self/fd/{name}"):
                found[os.stat(f"/proc/self/fd/{name}").st_ino] += 1
    return found


def test_slots_keep_no_descriptors(start, cuda):  # noqa: F811
    others = set(descriptors_of_slots())  # Tests before may have left some.

    def counts():
        return {count for file, count in descriptors_of_slots().items() if file not in others}

    _, client = start()
    with loader_of(client, device="cuda") as loader:
        list(loader)
        assert max(counts()) > 2
    del loader
    gc.collect()
    wait_until(lambda: counts() == {2})


@pytest.mark.parametrize("has_pinned", [True, False])
def test_batches_of_another_machine_are_not_registered(tmp_path, cuda, has_pinned):
    cuda.has_pinned = has_pinned
    feed = FakeFeed(tmp_path, is_elsewhere=True)
    with hearth.Client(feed.address) as client, loader_of(client, device="cuda") as loader:
        for epoch in range(2):
            for number, batch in enumerate(loader):
                same(batch.x, x_of(feed, number, epoch))
            assert number == 6
        assert "register" not in cuda.last.calls
        assert bool(cuda.last.pinned_sizes) == has_pinned
    feed.stop()


@pytest.mark.parametrize("device, words", [
    ("cuda:2", "PyTorch finds 2"), ("meta", "neither cpu nor cuda"),
    ("gpu", "not a device of PyTorch"), (object(), "not a device of PyTorch")])
def test_devices_that_are_not_there_are_refused(start, cuda, device, words):  # noqa: F811
    feed, client = start()
    with pytest.raises(hearth.InvalidRequest, match=words) as refused:
        loader_of(client, device=device)
    assert refused.value.field == "device" and feed.specs == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_no_job_is_submitted(start):  # noqa: F811
    feed, client = start()
    with pytest.raises(hearth.InvalidRequest, match="device: 'cuda' cannot be used: .* no GPU"):
        loader_of(client, device="cuda")
    assert feed.specs == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")
@pytest.mark.parametrize("refuses", [False, True])
def test_a_real_gpu(start, monkeypatch, caplog, refuses):  # noqa: F811
    caplog.set_level(logging.INFO, "hearth")
    if refuses:
        monkeypatch.setattr(device_copies.CudaCalls, "register", lambda *_: False)
    feed, client = start(Graph(dim=4096, batches={"train": 40, "valid": 1, "test": 1}))
    with loader_of(client, device="cuda") as loader:
        for epoch in range(2):
            for number, batch in enumerate(loader):
                sums = batch.x @ torch.ones(4096, 256, device="cuda")
                same(batch.x.cpu(), x_of(feed, number, epoch))
                same(batch.edge_index.cpu(),
                     feed.graph.batch(TRAIN, epoch, number).arrays["edge_index", None, None])
                assert torch.isfinite(sums).all()
            assert number == 39
    wait_until(lambda: feed.held == 0)
    print(caplog.messages)
    assert len(caplog.messages) == 1
