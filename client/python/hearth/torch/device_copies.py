"""Batches on a GPU: copied there on a stream of the loader's own, one batch ahead of the script.

  1. The GPU reads a slot by itself, over the slot's shared map, once CUDA has registered it.
     Where CUDA refuses, and for slots that come over the network, batches go through pinned
     memory, in two parts by turns; where there is none, straight from the slot, while the script
     waits.
  2. The script's stream waits for the event that follows a batch's copies, and memory of the
     tensors is not used again before that stream is done with them.
  3. Slots go back to the daemon when that event has come (InFlight).
"""

from __future__ import annotations

import collections
import contextlib
import enum
import itertools
import logging
import math
import os
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, ContextManager, NamedTuple, Optional

from hearth.errors import invalid
from hearth.packages import torch
from hearth.torch.batches import Arrays, made
from hearth.torch.slots import AnySlot, ReceivedSlot
from hearth.v1 import feeds_pb2

if TYPE_CHECKING:
    from hearth.torch.session import Arrived, Feed, Run

# cudaHostRegisterPortable and cudaHostRegisterReadOnly.
_REGISTER_FLAGS = 0x1 | 0x8
_ALIGNED = 64
_log = logging.getLogger("hearth")


def device_of(device: Any) -> Any:
    """The CUDA device that batches are to be on; None: they stay where they are. Raises
    InvalidRequest for devices that are not there."""
    if device is None:
        return None
    try:
        chosen = torch().device(device)
    except (RuntimeError, TypeError):
        raise invalid("device", f"{device!r} is not a device of PyTorch") from None
    if chosen.type == "cpu":
        return None
    cuda = torch().cuda
    if chosen.type != "cuda":
        raise invalid("device", f"{device!r} is neither cpu nor cuda")
    if not cuda.is_available():
        raise invalid("device", f"{device!r} cannot be used: PyTorch finds no GPU")
    index = cuda.current_device() if chosen.index is None else chosen.index
    if index >= cuda.device_count():
        raise invalid("device", f"{device!r} is not there: PyTorch finds {cuda.device_count()}")
    return torch().device("cuda", index)


class CudaCalls:
    """What copies need of CUDA, on one device."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._stream = torch().cuda.Stream(device)

    def register(self, address: int, size: int) -> bool:
        """Whether the device may read that memory by itself from now on."""
        with torch().cuda.device(self.device):
            code = int(torch().cuda.cudart().cudaHostRegister(address, size, _REGISTER_FLAGS))
            if code:
                # The refusal stays CUDA's last error, which torch would find at its next kernel.
                with contextlib.suppress(RuntimeError):
                    torch().ones(1, device=self.device).add_(1)
        return code == 0

    def unregister(self, address: int) -> None:
        torch().cuda.cudart().cudaHostUnregister(address)

    def pinned(self, size: int) -> Any:
        """Memory that the device reads by itself: uint8 [size]. Raises RuntimeError."""
        return torch().empty(size, dtype=torch().uint8, pin_memory=True)

    def on_stream(self) -> ContextManager[Any]:
        """What is done within it is done on the loader's stream."""
        stream: ContextManager[Any] = torch().cuda.stream(self._stream)
        return stream

    def moved(self, values: Any, waits: bool) -> Any:
        """A copy on the device, by the current stream."""
        return values.to(self.device, non_blocking=not waits)

    def record(self) -> Any:
        """An event that comes after all that the loader's stream has been given."""
        return self._stream.record_event()

    def hand_over(self, event: Any, tensors: list[Any]) -> None:
        """Lets the script's stream use tensors, after an event."""
        current = torch().cuda.current_stream(self.device)
        current.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(current)


class InFlight:
    """Memory that a GPU reads, each until an event has come. Thread-safe, without a lock: memory
    that dies may call anything, and so may wait for locks of those who wait here."""

    def __init__(self) -> None:
        # By numbers, as they were added. Each stays until it has been read, for all threads.
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._numbers = itertools.count()

    def add(self, event: Any, memory: Any) -> None:
        self._copies[next(self._numbers)] = event, memory

    def sweep(self) -> None:
        """Lets memory go that has been read. Never waits."""
        self._let_go(lambda event: event.query())

    def finish(self) -> None:
        """Lets all memory go, once it has been read."""
        self._let_go(lambda event: event.synchronize() is None)

    def _let_go(self, is_done: Callable[[Any], bool]) -> None:
        for number in list(self._copies):
            event, _ = self._copies.get(number, (None, None))
            try:
                if event is not None and not is_done(event):
                    return
            except RuntimeError:
                pass  # The device has failed, as the script's own calls tell it.
            self._copies.pop(number, None)


class _Way(enum.Enum):
    REGISTERED = "by the GPU, from memory that the daemon shares"
    STAGED = "through pinned memory"
    PLAIN = "without pinned memory, of which there is none"


class _Staging:
    """Pinned memory that batches go through."""

    def __init__(self) -> None:
        self.event: Any = None
        """After it the memory is free."""
        self._memory: Any = None

    def filled(self, message: feeds_pb2.FeedBatch, sources: dict[int, Any],
               calls: CudaCalls) -> dict[int, Any]:
        """Copies of slots, once the batch before has left. Raises RuntimeError without pinned
        memory."""
        if self.event is not None:
            self.event.synchronize()
        ends = list(itertools.accumulate(-(-len(one) // _ALIGNED) * _ALIGNED
                                         for one in sources.values()))
        if self._memory is None or len(self._memory) < ends[-1]:
            self._memory = None
            self._memory = calls.pinned(ends[-1])
        staged = {id: self._memory[begin:end]
                  for id, begin, end in zip(sources, [0, *ends], ends)}
        for array in message.arrays:
            part = slice(array.offset, array.offset + _count_bytes(array))
            staged[array.slot][part].copy_(sources[array.slot][part])
        return staged


class Started(NamedTuple):
    """A batch whose copies have been started."""

    batch: Any
    number: int
    event: Any
    tensors: list[Any]


class _DeviceArrays(Arrays):
    """Arrays whose tensors are copies on the device, by the current stream."""

    def __init__(self, message: feeds_pb2.FeedBatch, sources: dict[int, Any], calls: CudaCalls,
                 waits: bool) -> None:
        """`sources` has the bytes of each slot: uint8 [bytes]."""
        super().__init__(message, {}, None)
        self._sources = sources
        self._calls = calls
        self._waits = waits
        self._x: Any = None
        self.tensors: list[Any] = []
        """All that are handed out."""

    def tensor(self, name: str, of_type: Optional[int] = None,
               layer: Optional[int] = None) -> Any:
        values = self.inner(name, of_type, layer)
        return None if values is None else self.kept(self._moved(values))

    def rows(self, of_type: int, width: int) -> Any:
        rows = self.inner("rows", of_type)
        if rows is None:
            return self.tensor("x")
        if self._x is None:
            self._x = self._moved(self.inner("x"))
        return self.kept(self._x[:, :width].index_select(0, self._moved(rows)))

    def _flat(self, array: feeds_pb2.FeedArray, dtype: Any, count: int) -> Any:
        end = array.offset + count * dtype.itemsize
        return self._sources[array.slot][array.offset:end].view(dtype)

    def _moved(self, values: Any) -> Any:
        return self._calls.moved(values, self._waits)

    def kept(self, values: Any) -> Any:
        self.tensors.append(values)
        return values


class DeviceCopies:
    """The copies of one loader."""

    def __init__(self, device: Any, in_flight: InFlight) -> None:
        self._calls = CudaCalls(device)
        self._in_flight = in_flight
        self._way = _Way.REGISTERED
        self._told: Optional[_Way] = None
        self._stagings = collections.deque([_Staging(), _Staging()])
        with warnings.catch_warnings():
            # torch warns, once, of memory that cannot be written; it is only read.
            warnings.simplefilter("ignore")
            _bytes_of(memoryview(b" "))

    def begin(self, arrived: Arrived, layout: str, welcome: feeds_pb2.FeedWelcome) -> Started:
        """Starts the copies of a batch, which was lent for them (Run.is_copied)."""
        sources = {id: _bytes_of(view) for id, (view, _) in arrived.lent.items()}
        memory: Any = arrived.lent
        if self._way is _Way.REGISTERED and not all(
                self._registers(loan.slot, sources[id].data_ptr())
                for id, (_, loan) in arrived.lent.items()):
            self._way = _Way.STAGED
        if self._way is _Way.STAGED:
            self._stagings.rotate()
            try:
                memory = sources = self._stagings[0].filled(arrived.message, sources, self._calls)
            except RuntimeError:
                self._way = _Way.PLAIN
        self._tell()
        arrays = _DeviceArrays(arrived.message, sources, self._calls, self._way is _Way.PLAIN)
        try:
            with self._calls.on_stream():
                batch = made(layout, arrays, welcome)
        finally:
            # Copies before an error go on, too.
            event = self._stagings[0].event = self._calls.record()
            self._in_flight.add(event, memory)
        return Started(batch, arrived.message.number, event, arrays.tensors)

    def hand_over(self, started: Started) -> Any:
        """The batch, for the script's stream."""
        self._calls.hand_over(started.event, started.tensors)
        return started.batch

    def _registers(self, slot: AnySlot, address: int) -> bool:
        if isinstance(slot, ReceivedSlot):
            return False
        if not slot.is_registered and self._calls.register(address, slot.size):
            slot.is_registered = True
            weakref.finalize(slot, _unregister, self._calls, address, slot.shared,
                             os.getpid()).atexit = False
        return slot.is_registered

    def _tell(self) -> None:
        if self._told is not self._way:
            self._told = self._way
            _log.info("batches are copied to %s %s", self._calls.device, self._way.value)


class DevicePass:
    """The batches of one iteration, on the device."""

    def __init__(self, copies: DeviceCopies, feed: Feed, run: Run, layout: str, end: int) -> None:
        """`end` is the number of the batch after the last."""
        self._copies = copies
        self._feed = feed
        self._run = run
        self._layout = layout
        self._end = end
        self._ahead: Optional[Started] = None

    def next(self) -> Optional[tuple[Any, int]]:
        """The next batch and its number; None at the end of the pass."""
        self._feed.check_process()
        started, self._ahead = self._ahead, None
        if started is None or self._run.is_over:
            # The daemon may need the slots for the batch that is awaited.
            self._feed.in_flight.finish()
            started = self._begun(self._feed.next(self._run))
            if started is None:
                return None
        if started.number + 1 < self._end:
            self._ahead = self._begun(self._feed.ready(self._run))
        return self._copies.hand_over(started), started.number

    def _begun(self, arrived: Optional[Arrived]) -> Optional[Started]:
        if arrived is None:
            return None
        return self._copies.begin(arrived, self._layout, self._feed.welcome())


def _bytes_of(view: memoryview) -> Any:
    return torch().frombuffer(view, dtype=torch().uint8)


def _count_bytes(array: feeds_pb2.FeedArray) -> int:
    return math.prod(array.shape) * (4 if array.type == feeds_pb2.FeedArray.FLOAT32 else 8)


def _unregister(calls: CudaCalls, address: int, shared: Any, process: int) -> None:
    """Ends the registration of a slot, whose map is still there. CUDA does not work in a child of
    the process that had it."""
    if os.getpid() == process:
        calls.unregister(address)
