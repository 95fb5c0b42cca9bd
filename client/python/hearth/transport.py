"""Transports to the daemon: a blocking one, and one for asyncio. Both have coroutines; those of
the blocking transport block and never suspend."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, Generic, Iterable, Iterator, Optional, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from hearth.servers import Server
from hearth.trace import trace_parent
from hearth.version import package_version

# A daemon that is silent for the first time while a call is in progress is pinged, and has the
# second time to answer.
_KEEPALIVE_MS = 4000
KEEPALIVE_TIMEOUT_MS = 4000
_CHANNEL_OPTIONS = [
    # A job of 100,000 epochs has a report of each epoch.
    ("grpc.max_receive_message_length", 256 << 20),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name, the time that an attempt to connect has.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    # Also for pings that are in flight for other purposes, which by default have a minute.
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    # Pings go on however long no event comes.
    ("grpc.http2.max_pings_without_data", 0),
    # The daemon is on this machine or on the local network.
    ("grpc.enable_http_proxy", 0),
    # Each client of a process has a connection of its own.
    ("grpc.use_local_subchannel_pool", 1),
]
# Details of asyncio's calls that were cancelled on this side.
_CANCELLED_HERE = "Locally cancelled by application!"

Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")
Received = TypeVar("Received", bound=Message, covariant=True)


class Stream(Protocol[Received]):
    """A stream of messages that answers one request."""

    async def initial_metadata(self) -> Iterable[tuple[str, Any]]:
        """Metadata that come before any message."""

    async def read(self) -> Optional[Received]:
        """The next message; None once the stream has ended well. Raises grpc.RpcError."""

    def cancel(self) -> None:
        """Ends the stream. No error if it has ended."""


class Transport(Protocol):
    """A channel to a daemon, made at the first call."""

    server: Server

    async def call(self, method: str, request: Message, response: type[Response]) -> Response:
        """One call. Raises grpc.RpcError."""

    def stream(self, method: str, request: Message, message: type[Response]) -> Stream[Response]:
        """One call that is answered by a stream."""

    async def send(self, method: str, requests: Iterator[Message],
                   response: type[Response]) -> Response:
        """One call with a stream of requests. Raises grpc.RpcError."""

    async def pause(self, seconds: float) -> None:
        """Waits for some seconds."""

    async def work(self, job: Callable[[], Result]) -> Result:
        """The result of `job`, which takes long; other calls go on meanwhile."""

    async def close(self) -> None:
        """Ends the channel, and the calls over it."""


def _own_metadata() -> tuple[tuple[str, str], ...]:
    """Metadata of each call beside the server's: the trace, and the version, by which the daemon
    tells a client that it cannot speak with."""
    version = package_version()
    return (("traceparent", trace_parent()), *((("hearth-version", version),) if version else ()))


def _path(method: str) -> str:
    return f"/hearth.v1.{method}"


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _new_channel(server: Server) -> grpc.Channel:
    return (grpc.insecure_channel(server.address, options=_CHANNEL_OPTIONS)
            if server.credentials is None else
            grpc.secure_channel(server.address, server.credentials, options=_CHANNEL_OPTIONS))


class BlockingTransport:
    """Transport whose calls block the caller's thread. Thread-safe."""

    def __init__(self, server: Server, timeout: float) -> None:
        self.server = server
        self._metadata = (*server.metadata, *_own_metadata())
        self._timeout = timeout
        self._channel = _new_channel(server)

    async def call(self, method: str, request: Message, response: type[Response]) -> Response:
        remote = self._channel.unary_unary(
            _path(method), request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString)
        answer: Response = remote(request, timeout=self._timeout, metadata=self._metadata)
        return answer

    def stream(self, method: str, request: Message, message: type[Response]) -> Stream[Response]:
        remote = self._channel.unary_stream(
            _path(method), request_serializer=type(request).SerializeToString,
            response_deserializer=message.FromString)
        return _BlockingStream(remote(request, metadata=self._metadata))

    async def send(self, method: str, requests: Iterator[Message],
                   response: type[Response]) -> Response:
        remote: Any = self._channel.stream_unary(
            _path(method), request_serializer=_serialized, response_deserializer=response.FromString)
        answer: Response = remote(requests, metadata=self._metadata)
        return answer

    def both_ways(self, method: str, requests: Iterator[Message],
                  response: type[Response]) -> BothWays[Response]:
        """A call whose sides both send messages. It has a connection of its own, where much that
        comes delays no other call, and which `close` leaves alone."""
        channel = _new_channel(self.server)
        remote: Any = channel.stream_stream(
            _path(method), request_serializer=_serialized, response_deserializer=response.FromString)
        return BothWays(channel, remote(requests, metadata=self._metadata))

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def work(self, job: Callable[[], Result]) -> Result:
        return job()

    async def close(self) -> None:
        self._channel.close()


class BothWays(Generic[Response]):
    """The daemon's messages of a call, to be iterated over once. Raises grpc.RpcError."""

    def __init__(self, channel: grpc.Channel, call: Any) -> None:
        self._channel = channel
        self._call = call

    def __iter__(self) -> Iterator[Response]:
        try:
            yield from self._call
        finally:
            self._channel.close()

    def cancel(self) -> None:
        """Ends the call. No error if it has ended."""
        self._call.cancel()


class _BlockingStream:
    def __init__(self, call: Any) -> None:
        self._call = call

    async def initial_metadata(self) -> Iterable[tuple[str, Any]]:
        return self._call.initial_metadata() or ()

    async def read(self) -> Any:
        return next(self._call, None)

    def cancel(self) -> None:
        self._call.cancel()


class AsyncTransport:
    """Transport of asyncio, in the loop of its first call. Cancelling a task cancels its call."""

    def __init__(self, server: Server, timeout: float) -> None:
        self.server = server
        self._metadata = (*server.metadata, *_own_metadata())
        self._timeout = timeout
        self._made: Optional[grpc.aio.Channel] = None

    def _channel(self) -> grpc.aio.Channel:
        if self._made is None:
            self._made = (
                grpc.aio.insecure_channel(self.server.address, options=_CHANNEL_OPTIONS)
                if self.server.credentials is None else
                grpc.aio.secure_channel(self.server.address, self.server.credentials,
                                        options=_CHANNEL_OPTIONS))
        return self._made

    async def call(self, method: str, request: Message, response: type[Response]) -> Response:
        remote: Any = self._channel().unary_unary(
            _path(method), request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString)
        answer: Response = await remote(request, timeout=self._timeout, metadata=self._metadata)
        return answer

    def stream(self, method: str, request: Message, message: type[Response]) -> Stream[Response]:
        remote: Any = self._channel().unary_stream(
            _path(method), request_serializer=type(request).SerializeToString,
            response_deserializer=message.FromString)
        return _AsyncStream(remote(request, metadata=self._metadata))

    async def send(self, method: str, requests: Iterator[Message],
                   response: type[Response]) -> Response:
        remote: Any = self._channel().stream_unary(
            _path(method), request_serializer=_serialized, response_deserializer=response.FromString)
        answer: Response = await remote(requests, metadata=self._metadata)
        return answer

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def work(self, job: Callable[[], Result]) -> Result:
        return await asyncio.to_thread(job)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


class _AsyncStream:
    def __init__(self, call: Any) -> None:
        self._call = call

    async def initial_metadata(self) -> Iterable[tuple[str, Any]]:
        metadata: Iterable[tuple[str, Any]] = await self._call.initial_metadata() or ()
        return metadata

    async def read(self) -> Any:
        try:
            message = await self._call.read()
        except asyncio.CancelledError:
            # A daemon that shuts down cancels streams; grpc.aio does not tell that from a
            # cancellation of the task.
            if not self._call.done() or await self._call.details() == _CANCELLED_HERE:
                raise
            raise grpc.aio.AioRpcError(
                await self._call.code(), await self._call.initial_metadata(),
                await self._call.trailing_metadata(), await self._call.details()) from None
        return None if message is grpc.aio.EOF else message

    def cancel(self) -> None:
        self._call.cancel()
