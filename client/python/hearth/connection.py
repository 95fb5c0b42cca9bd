"""The connection to the daemon: calls that are repeated, watches that are resumed."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import Any, Callable, Iterator, Optional, TypeVar, Union

import grpc
from google.protobuf.message import Message

from hearth.errors import HearthError, Unavailable, from_rpc, was_silent
from hearth.servers import Server
from hearth.trace import trace_parent
from hearth.v1 import jobs_pb2, sweeps_pb2

# The daemon's metadata of a watch that it has begun, before any event.
_WATCH_IS_OPEN = "hearth-watch"
# While a call is in progress and nothing comes, the daemon is asked after the first time
# whether it is there, and has the second to answer.
_KEEPALIVE_MS = 4000
_KEEPALIVE_TIMEOUT_MS = 4000
_SILENCE_LIMIT_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_CHANNEL_OPTIONS = [
    # A job of 100,000 epochs has a report of each.
    ("grpc.max_receive_message_length", 256 << 20),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # By its name a pause; in truth the time that an attempt to connect has.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    # A ping for another purpose may be in flight; by default it has a minute.
    ("grpc.http2.ping_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    # However long there are no events.
    ("grpc.http2.max_pings_without_data", 0),
    # The daemon is on this machine or on the local network.
    ("grpc.enable_http_proxy", 0),
    # Clients of one process each have their own connection.
    ("grpc.use_local_subchannel_pool", 1),
]
# What gRPC reports when the other side goes away. A daemon that is killed gives UNAVAILABLE;
# one that shuts down may give any of them.
_BROKEN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN,
           grpc.StatusCode.DEADLINE_EXCEEDED}
_UNREACHABLE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}

Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")
Event = TypeVar("Event", jobs_pb2.JobEvent, sweeps_pb2.SweepEvent)
WatchRequest = Union[jobs_pb2.WatchJobRequest, sweeps_pb2.WatchSweepRequest]
OnSilence = Callable[[float], None]
NameOf = Callable[[str], str]
_log = logging.getLogger("hearth")


def new_request_id() -> str:
    """Names a request, which may be repeated with it and still takes effect once."""
    return str(uuid.uuid4())


def _same(path: str) -> str:
    return path


class Silence:
    """Tells when the other side has not been heard for 10 s, and when it is heard again.
    Thread-safe."""

    def __init__(self, notice: OnSilence) -> None:
        self._notice = notice
        self._lock = threading.Lock()
        self._timer: Optional[threading.Timer] = None
        self._since = 0.0
        self._told = False

    def heard(self) -> None:
        """Something has come from the other side."""
        with self._lock:
            if self._timer is None:
                return
            self._timer.cancel()
            self._timer = None
            told, self._told = self._told, False
        if told:
            self._notice(0.0)

    def lost(self, before: float = 0.0) -> None:
        """From now on nothing comes, after `before` seconds of silence; nothing happens if that
        is known."""
        with self._lock:
            if self._timer is not None:
                return
            self._since = time.monotonic() - before
            timer = threading.Timer(max(0.0, _SILENCE_LIMIT_SECONDS - before), lambda: None)
            timer.function = lambda: self._tell(timer)
            timer.daemon = True
            self._timer = timer
            timer.start()

    def close(self) -> None:
        """Nothing is told from now on."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def _tell(self, timer: threading.Timer) -> None:
        with self._lock:
            if self._timer is not timer:
                return
            self._told = True
            seconds = time.monotonic() - self._since
        self._notice(seconds)


class Connection:
    """One channel to a daemon. Thread-safe; connects at the first call."""

    def __init__(self, server: Server, timeout: float, patience: float,
                 watch_patience: float, on_silence: Optional[OnSilence]) -> None:
        self.server = server.address
        self._metadata = (*server.metadata, ("traceparent", trace_parent()))
        self._timeout = timeout
        self._patience = patience
        self._watch_patience = watch_patience
        self._on_silence = on_silence or self._log_silence
        self._channel = (
            grpc.insecure_channel(server.address, options=_CHANNEL_OPTIONS)
            if server.credentials is None else
            grpc.secure_channel(server.address, server.credentials, options=_CHANNEL_OPTIONS))

    def close(self) -> None:
        self._channel.close()

    def call(self, method: str, request: Message, response: type[Response],
             name_of: NameOf = _same) -> Response:
        """Makes a call, again while the daemon cannot be reached. All calls can be repeated:
        those that change something have a request id."""
        remote = self._channel.unary_unary(
            f"/hearth.v1.{method}", request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString)
        silence = Silence(self._on_silence)
        silence.lost()
        pauses = _Pauses(self._patience)
        try:
            while True:
                try:
                    answer: Response = remote(request, timeout=self._timeout,
                                              metadata=self._metadata)
                except grpc.RpcError as error:
                    problem = from_rpc(error, self.server, name_of)
                    if problem.code not in _UNREACHABLE:
                        silence.heard()
                        raise problem from error
                    if not pauses.pause():
                        raise problem from error
                else:
                    silence.heard()
                    return answer
        finally:
            silence.close()

    def watch(self, method: str, request: WatchRequest, event_type: type[Event],
              is_end: Callable[[Event], bool], has_ended: Callable[[], bool]) -> Iterator[Event]:
        """The events of what `request` names, from its from_sequence on, each once and in order,
        until the end.

          1. Stream events from the next number wanted, and want the one after each next.
          2. The stream ended well and the end was among its events: done.
          3. It ended well without the end (the daemon was stopping, or the end came before the
             first number wanted): done if `has_ended`, else go on as after a break.
          4. It broke: pause, unless nothing has come for longer than patience allows, and start
             over. Answers that will not change by waiting (NOT_FOUND, say) are raised.
        """
        remote = self._channel.unary_stream(
            f"/hearth.v1.{method}", request_serializer=type(request).SerializeToString,
            response_deserializer=event_type.FromString)
        silence = Silence(self._on_silence)
        pauses = _Pauses(self._watch_patience)
        wanted = max(request.from_sequence, 1)
        ended = False
        try:
            while True:
                request.from_sequence = wanted
                stream = remote(request, metadata=self._metadata)
                problem: Optional[HearthError] = None
                try:
                    if any(key == _WATCH_IS_OPEN for key, _ in stream.initial_metadata() or ()):
                        silence.heard()
                    for event in stream:
                        silence.heard()
                        pauses.reset()
                        if event.sequence < wanted:  # Seen before the break.
                            continue
                        wanted = event.sequence + 1
                        ended = ended or is_end(event)
                        yield event
                except grpc.RpcError as error:
                    problem = from_rpc(error, self.server)
                    if problem.code not in _BROKEN:
                        raise problem from error
                    silence.lost(_KEEPALIVE_TIMEOUT_MS / 1000 if was_silent(error) else 0.0)
                finally:
                    stream.cancel()
                if problem is None:
                    try:
                        if ended or has_ended():
                            return
                    except Unavailable as error:
                        problem = error
                if not pauses.pause():
                    raise problem or HearthError(grpc.StatusCode.UNAVAILABLE,
                                                 "the watch ended early")
        finally:
            silence.close()

    def resume(self, attempt: Callable[[Callable[[], None]], Result]) -> Result:
        """What `attempt`, a transfer, returns; it is made again when it breaks, as watches are,
        and goes on then by itself. It calls what it is given when something has come."""
        silence = Silence(self._on_silence)
        pauses = _Pauses(self._watch_patience)

        def heard() -> None:
            silence.heard()
            pauses.reset()

        try:
            while True:
                try:
                    return attempt(heard)
                except Unavailable as error:  # Of a call that it made.
                    problem: HearthError = error
                    silence.lost()
                except grpc.RpcError as error:
                    problem = from_rpc(error, self.server)
                    silence.lost(_KEEPALIVE_TIMEOUT_MS / 1000 if was_silent(error) else 0.0)
                if problem.code not in _BROKEN or not pauses.pause():
                    raise problem
        finally:
            silence.close()

    def stream(self, method: str, request: Message,
               response: type[Response]) -> Iterator[Response]:
        """The messages of one stream of the daemon's. Raises grpc.RpcError: see resume."""
        remote = self._channel.unary_stream(
            f"/hearth.v1.{method}", request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString)
        stream = remote(request, metadata=self._metadata)
        try:
            yield from stream
        finally:
            stream.cancel()

    def send(self, method: str, requests: Iterator[Message],
             response: type[Response]) -> Response:
        """The answer to one stream of messages. Raises grpc.RpcError: see resume."""
        remote: Any = self._channel.stream_unary(
            f"/hearth.v1.{method}", request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=response.FromString)
        answer: Response = remote(requests, metadata=self._metadata)
        return answer

    def _log_silence(self, seconds: float) -> None:
        if seconds > 0:
            _log.warning("hearthd at %s has not answered for %.0f s; trying on", self.server,
                         seconds)
        else:
            _log.warning("hearthd at %s answers again", self.server)


class _Pauses:
    """Pauses between attempts, each twice as long as the one before, up to 2 s, until as much
    time has passed as patience allows."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.reset()

    def reset(self) -> None:
        """Something worked."""
        self._next = _FIRST_PAUSE_SECONDS
        self._began: Optional[float] = None

    def pause(self) -> bool:
        """False, without pausing, once patience is at its end."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        if now - self._began + self._next > self._patience:
            return False
        time.sleep(self._next)
        self._next = min(2 * self._next, _LONGEST_PAUSE_SECONDS)
        return True
