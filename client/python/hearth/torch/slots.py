"""Slots of a connection: memory that the daemon writes, mapped here, and lent to tensors. Over the
network it is this process's own, and all but the pages in 1 and 3 is the same.

  1. The daemon sends a slot once (`add`). It is mapped privately: pages that the script writes
     become its own, and no other reader sees them. Copies to a GPU read a second map, which is
     shared.
  2. A batch lends its slots (`lend`): tensors are made over a memoryview of the map, which lives
     as long as any of them, their views, or what autograd has saved of them.
  3. When the view dies, on whatever thread, own pages are given up, so that the next batch in the
     slot is seen, and the slot goes back to the daemon at once, or where the socket is full, by
     the next call.
"""

from __future__ import annotations

import collections
import functools
import math
import mmap
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Callable, Iterable, Optional, Union

from hearth.packages import torch
from hearth.torch.stream import StreamWire
from hearth.torch.wire import Wire
from hearth.v1 import feeds_pb2

_PAGEMAP = "/proc/self/pagemap"
_ENTRY_BYTES = 8
# The highest bits of an entry of the pagemap: in memory, swapped out, and of a file, here: the
# daemon's.
_STATE_SHIFT = 61
_OF_A_FILE = 1
# Own pages that are nearer to each other than this are given up as one range.
_GAP_PAGES = 16
# A script that writes this share of a batch's rows is better off with copies.
_WRITTEN_SHARE = 0.1

AnyWire = Union[Wire, StreamWire]


class Slot:
    """The maps of one slot."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.map = mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE,
                             prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self.size = size
        self._descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        self.is_registered = False
        """Whether CUDA has registered the shared map."""
        self._address: int = torch().frombuffer(self.map, dtype=torch().uint8).data_ptr()

    @functools.cached_property
    def shared(self) -> mmap.mmap:
        """A second map, which is shared and cannot be written. Made at its first use."""
        return mmap.mmap(self._descriptor, self.size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)

    def give_up_own_pages(self) -> int:
        """Gives up the pages that this process has written, and returns how many bytes they
        were; all pages where the kernel does not tell which."""
        ranges = own_pages(self._address, self.size)
        if ranges is None:
            self.map.madvise(mmap.MADV_DONTNEED)
            return 0
        for first, count, _ in ranges:
            self.map.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, count * mmap.PAGESIZE)
        return sum(own for _, _, own in ranges) * mmap.PAGESIZE


class ReceivedSlot:
    """A slot whose bytes come over the network, in memory of this process."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.map = self.shared = memory

    def give_up_own_pages(self) -> int:
        """The next batch is written over what the script has written: there is no need."""
        return 0


AnySlot = Union[Slot, ReceivedSlot]


@dataclass
class Loan:
    """A slot that is lent to the tensors of a batch."""

    id: int
    slot: AnySlot
    batch: tuple[int, int]
    """Pass and number of the batch."""
    rows_bytes: int
    """Bytes of the batch's rows of features in it."""
    is_seen: bool = False
    """Whether the script has tensors over it, which it may write."""


class Slots:
    """The slots of one connection. Loans may end on any thread, and at any point of it."""

    def __init__(self, wire: AnyWire) -> None:
        self._wire = wire
        self._slots: dict[int, AnySlot] = {}
        self._out: dict[int, Loan] = {}
        self._free: collections.deque[int] = collections.deque()
        self._sending = threading.Lock()
        self._when_empty: Optional[Callable[[], None]] = None
        self.is_written = False
        """Whether the script writes much of the batches' rows."""

    @property
    def held(self) -> int:
        """Batches that tensors are left of."""
        return len({loan.batch for loan in list(self._out.values())})

    @property
    def are_shared(self) -> bool:
        """Whether their memory is the daemon's, too."""
        return isinstance(self._wire, Wire)

    def add(self, id: int, size: int, descriptor: int) -> None:
        self._slots[id] = (ReceivedSlot(self._wire.memory(id))
                           if isinstance(self._wire, StreamWire) else Slot(descriptor, size))

    def drop(self, ids: Iterable[int]) -> None:
        """Forgets slots; memory that is lent stays until it is given back."""
        for id in ids:
            self._slots.pop(id, None)

    def lend(self, batch: feeds_pb2.FeedBatch,
             is_shared: bool = False) -> dict[int, tuple[memoryview, Loan]]:
        """Memory of the batch's slots, by their ids: each goes back when its memoryview dies. That
        of shared maps is only read."""
        rows = {array.slot: 4 * math.prod(array.shape) for array in batch.arrays
                if array.name == "x"}
        lent = {}
        for id in batch.slots:
            slot = self._slots[id]
            loan = Loan(id, slot, (getattr(batch, "pass"), batch.number), rows.get(id, 0))
            view = memoryview(slot.shared if is_shared else slot.map)
            self._out[id] = loan
            weakref.finalize(view, self._end, loan).atexit = False
            lent[id] = view, loan
        return lent

    def give_back(self, ids: Iterable[int]) -> None:
        """Gives slots back that are not lent."""
        self._free.extend(ids)
        self.flush()

    def flush(self) -> None:
        """Sends the slots that are free. Whoever finds another thread sending leaves its slots
        to that one."""
        while self._free and self._sending.acquire(blocking=False):
            try:
                ids = [self._free.popleft() for _ in range(len(self._free))]
                message = feeds_pb2.FeedUp(release=feeds_pb2.FeedRelease(slots=ids))
                if not self._wire.try_send(message):
                    self._free.extendleft(reversed(ids))
                    return
            finally:
                self._sending.release()

    def when_all_are_back(self, action: Callable[[], None]) -> None:
        """Calls `action` once nothing is lent; the slots that were are sent before."""
        self._when_empty = action
        self._check_empty()

    def _end(self, loan: Loan) -> None:
        if self._wire.is_closed:
            self._out.pop(loan.id, None)
            return
        if loan.is_seen:
            written = loan.slot.give_up_own_pages()
            if loan.rows_bytes and written >= _WRITTEN_SHARE * loan.rows_bytes:
                self.is_written = True
        self._out.pop(loan.id, None)
        self._free.append(loan.id)
        self.flush()
        self._check_empty()

    def _check_empty(self) -> None:
        action = self._when_empty
        if action is not None and not self._out:
            self._when_empty = None
            action()


def own_pages(address: int, size: int) -> Optional[list[tuple[int, int, int]]]:
    """Ranges of the pages from `address` on that are this process's own, not the mapped file's:
    first page, pages, and how many of them are own. None where the kernel does not tell."""
    pages = -(-size // mmap.PAGESIZE)
    try:
        descriptor = os.open(_PAGEMAP, os.O_RDONLY | os.O_CLOEXEC)
        try:
            entries = bytearray(os.pread(descriptor, pages * _ENTRY_BYTES,
                                         address // mmap.PAGESIZE * _ENTRY_BYTES))
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if len(entries) != pages * _ENTRY_BYTES:
        return None
    bits = torch().frombuffer(entries, dtype=torch().int64)
    state = bits >> _STATE_SHIFT & 7
    own = ((state != 0) & (state & _OF_A_FILE == 0)).nonzero().flatten()
    if not len(own):
        return []
    ends = [0, *((own[1:] - own[:-1] > _GAP_PAGES).nonzero().flatten() + 1).tolist(), len(own)]
    return [(int(own[begin]), int(own[end - 1] - own[begin]) + 1, end - begin)
            for begin, end in zip(ends, ends[1:])]
