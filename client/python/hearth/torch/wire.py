"""The socket of a feed: packets of feeds.proto, with descriptors of slots."""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
from weakref import WeakSet

from hearth.v1 import feeds_pb2

_LARGEST_PACKET = 64 << 10
_DESCRIPTORS = socket.CMSG_SPACE(array.array("i").itemsize)
_open_wires: WeakSet[Wire] = WeakSet()


class ConnectionLost(Exception):
    """The daemon has gone, or has closed the connection."""


class Wire:
    """One connection to the daemon. Sending is thread-safe: a packet is one system call.

    A child of fork() closes its copy of the descriptor at once, so that it cannot speak in its
    parent's name; the parent's connection stays.
    """

    def __init__(self, path: str, ticket: bytes) -> None:
        """Connects, and sends hello. Raises OSError."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.connect(path)
            self._socket.send(feeds_pb2.FeedUp(
                hello=feeds_pb2.FeedHello(ticket=ticket)).SerializeToString())
        except BaseException:
            self._socket.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._is_reset = False
        _open_wires.add(self)

    @property
    def is_closed(self) -> bool:
        return self._socket.fileno() < 0

    def send(self, message: feeds_pb2.FeedUp) -> None:
        """Sends a message. Nothing happens if the daemon has gone: `read` tells it, after all
        that the daemon has sent."""
        with contextlib.suppress(OSError):
            self._socket.send(message.SerializeToString(), socket.MSG_NOSIGNAL)

    def try_send(self, message: feeds_pb2.FeedUp) -> bool:
        """`send` that never waits; whether the message need not be sent again."""
        try:
            self._socket.send(message.SerializeToString(),
                              socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def wait(self, seconds: float) -> bool:
        """Whether there is something to read within some seconds. Signals are handled
        meanwhile."""
        return bool(self._poll.poll(max(0, round(seconds * 1000))))

    def read(self) -> tuple[feeds_pb2.FeedDown, int]:
        """The next message, and its descriptor or -1, after `wait` has said that there is one.
        Raises ConnectionLost."""
        try:
            packet, ancillary, _, _ = self._socket.recvmsg(
                _LARGEST_PACKET, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            # Comes before the packets of a daemon that closed without reading all of ours.
            if not self._is_reset:
                self._is_reset = True
                return self.read()
            raise ConnectionLost from None
        except OSError as error:
            raise ConnectionLost from error
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        if not packet:
            raise ConnectionLost
        return feeds_pb2.FeedDown.FromString(packet), descriptors[0] if descriptors else -1

    def end(self, seconds: float) -> None:
        """Ends the connection, once the daemon has had some seconds to end it: packets that are
        not read when it is closed could take from the daemon what it has not read yet."""
        with contextlib.suppress(OSError, ConnectionLost):
            self._socket.shutdown(socket.SHUT_WR)
            while self.wait(seconds):
                _, descriptor = self.read()
                if descriptor >= 0:
                    os.close(descriptor)
        self.close()

    def close(self) -> None:
        _open_wires.discard(self)
        self._socket.close()


def _close_in_child() -> None:
    for wire in list(_open_wires):
        wire.close()


os.register_at_fork(after_in_child=_close_in_child)
