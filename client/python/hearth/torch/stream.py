"""The stream of a feed: messages of feeds.proto over the network, with the bytes of slots."""

from __future__ import annotations

import collections
import contextlib
import mmap
import os
import queue
import select
import socket
import threading
from typing import Callable, Iterator, Optional, Union
from weakref import WeakSet

import grpc

from hearth.connection import BROKEN
from hearth.errors import HearthError, from_rpc
from hearth.torch.wire import ConnectionLost
from hearth.transport import BothWays
from hearth.v1 import feeds_pb2

_open_streams: WeakSet[StreamWire] = WeakSet()


class StreamWire:
    """One stream to the daemon, with the interface of Wire. A thread reads it: it puts the bytes
    of slots into memory of this process, and keeps all else for `read`.

    A child of fork() cannot use it: the parent's stream stays.
    """

    def __init__(self, call: Callable[[Iterator[feeds_pb2.FeedUp]], BothWays[feeds_pb2.FeedDown]],
                 server: str, ticket: bytes) -> None:
        """`call` begins the call with an iterator of its requests. Says hello."""
        self._server = server
        # Its methods may be called again amid a call, as finalizers do.
        self._up: queue.SimpleQueue[Optional[feeds_pb2.FeedUp]] = queue.SimpleQueue()
        self._down: collections.deque[Union[feeds_pb2.FeedDown, Exception]] = collections.deque()
        self._memory: dict[int, mmap.mmap] = {}
        # Has a byte for each message that has come since the last wait.
        self._readable, self._writable = socket.socketpair()
        for end in (self._readable, self._writable):
            end.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._readable, select.POLLIN)
        self.is_closed = False
        self.send(feeds_pb2.FeedUp(hello=feeds_pb2.FeedHello(ticket=ticket)))
        self._call = call(iter(self._up.get, None))
        threading.Thread(target=self._receive, name="hearth feed", daemon=True).start()
        _open_streams.add(self)

    def send(self, message: feeds_pb2.FeedUp) -> None:
        """Sends a message. Nothing happens if the daemon has gone: `read` tells it."""
        self._up.put(message)

    def try_send(self, message: feeds_pb2.FeedUp) -> bool:
        """`send`, which never waits."""
        self.send(message)
        return True

    def wait(self, seconds: float) -> bool:
        """Whether there is something to read within some seconds. Signals are handled
        meanwhile."""
        if not self._down:
            with contextlib.suppress(BlockingIOError):
                self._readable.recv(4096)
        if not self._down:
            self._poll.poll(max(0, round(seconds * 1000)))
        return bool(self._down)

    def read(self) -> tuple[feeds_pb2.FeedDown, int]:
        """The next message, after `wait` has said that there is one; and -1, since slots have no
        descriptors. Raises ConnectionLost, and HearthError where the daemon has refused."""
        message = self._down[0]
        if isinstance(message, Exception):
            raise message
        self._down.popleft()
        return message, -1

    def memory(self, slot: int) -> mmap.mmap:
        """Memory of a slot that `read` has told of."""
        return self._memory[slot]

    def end(self, seconds: float) -> None:
        """Ends the stream, once the daemon has had some seconds to read all."""
        self._up.put(None)
        with contextlib.suppress(ConnectionLost, HearthError):
            while self.wait(seconds):
                self.read()
        self.close()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        _open_streams.discard(self)
        self._up.put(None)
        self._call.cancel()
        self._readable.close()

    def _receive(self) -> None:
        end: Exception = ConnectionLost()
        try:
            for message in self._call:
                self._take(message)
        except grpc.RpcError as error:
            problem = from_rpc(error, self._server)
            if problem.code not in BROKEN:
                end = problem
        except Exception as error:  # No memory, say: shown to the script.
            self._call.cancel()
            end = error
        self._keep(end)
        self._up.put(None)
        self._writable.close()

    def _take(self, message: feeds_pb2.FeedDown) -> None:
        kind = message.WhichOneof("message")
        if kind == "piece":
            piece = message.piece
            begin, data = piece.offset, piece.data  # Each use of the field copies the bytes.
            self._memory[piece.slot][begin:begin + len(data)] = data
            return
        if kind == "slot":
            self._memory[message.slot.id] = mmap.mmap(
                -1, message.slot.bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        elif kind == "drop":
            # The script has released them, and so has read of them.
            for id in message.drop.slots:
                self._memory.pop(id, None)
        self._keep(message)

    def _keep(self, message: Union[feeds_pb2.FeedDown, Exception]) -> None:
        self._down.append(message)
        # A full socket is readable, too; nobody reads a closed one.
        with contextlib.suppress(OSError):
            self._writable.send(b"\0", socket.MSG_NOSIGNAL)


def _close_in_child() -> None:
    for stream in list(_open_streams):
        stream.is_closed = True


os.register_at_fork(after_in_child=_close_in_child)
