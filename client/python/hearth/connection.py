"""The connection to the daemon: calls that are repeated, watches that are resumed."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import AsyncGenerator, Awaitable, Callable, Iterator, Optional, TypeVar, Union

import grpc
from google.protobuf.message import Message

from hearth.errors import HearthError, Unavailable, from_rpc, was_silent
from hearth.servers import why_tls_is_refused
from hearth.transport import KEEPALIVE_TIMEOUT_MS, Response, Transport
from hearth.v1 import jobs_pb2, sweeps_pb2

# The daemon's metadata of a watch that it has begun, before any event.
_WATCH_IS_OPEN = "hearth-watch"
_SILENCE_LIMIT_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
# Codes that gRPC reports when the other side goes away. A daemon that is killed gives UNAVAILABLE;
# one that shuts down may give any of them.
_BROKEN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN,
           grpc.StatusCode.DEADLINE_EXCEEDED}
_UNREACHABLE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}

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
    """One channel to a daemon: what is repeated, and what is resumed, over a transport. Its
    coroutines suspend where the transport's do: those of a blocking one never do."""

    def __init__(self, transport: Transport, patience: float, watch_patience: float,
                 on_silence: Optional[OnSilence]) -> None:
        self._transport = transport
        self.server = transport.server.address
        self._patience = patience
        self._watch_patience = watch_patience
        self._on_silence = on_silence or self._log_silence

    async def close(self) -> None:
        await self._transport.close()

    async def call(self, method: str, request: Message, response: type[Response],
                   name_of: NameOf = _same) -> Response:
        """Makes a call, again while the daemon cannot be reached. All calls can be repeated:
        those that change something have a request id."""
        silence = Silence(self._on_silence)
        silence.lost()
        pauses = _Pauses(self._patience)
        try:
            while True:
                try:
                    answer = await self._transport.call(method, request, response)
                except grpc.RpcError as error:
                    problem = from_rpc(error, self.server, name_of)
                    if problem.code not in _UNREACHABLE:
                        silence.heard()
                        raise problem from error
                    pause = pauses.next()
                    if pause is None:
                        raise await self._explained(problem) from error
                    await self._transport.pause(pause)
                else:
                    silence.heard()
                    return answer
        finally:
            silence.close()

    async def _explained(self, problem: HearthError) -> HearthError:
        """The error of a daemon that cannot be reached, with what keeps TLS from working."""
        server = self._transport.server
        refusal = await self._transport.work(lambda: why_tls_is_refused(server))
        if not refusal:
            return problem
        return Unavailable(problem.code,
                           f"hearthd at {self.server}: TLS was refused: {refusal}")

    async def watch(self, method: str, request: WatchRequest, event_type: type[Event],
                    is_end: Callable[[Event], bool],
                    has_ended: Callable[[], Awaitable[bool]]) -> AsyncGenerator[Event, None]:
        """The events of what `request` names, from its from_sequence on, each once and in order,
        until the end.

          1. Stream events from the next number wanted, and want the one after each next.
          2. The stream ended well and the end was among its events: done.
          3. It ended well without the end (the daemon was stopping, or the end came before the
             first number wanted): done if `has_ended`, else go on as after a break.
          4. It broke: pause, unless nothing has come for longer than patience allows, and start
             over. Answers that will not change by waiting (NOT_FOUND, say) are raised.
        """
        silence = Silence(self._on_silence)
        pauses = _Pauses(self._watch_patience)
        wanted = max(request.from_sequence, 1)
        ended = False
        try:
            while True:
                request.from_sequence = wanted
                stream = self._transport.stream(method, request, event_type)
                problem: Optional[HearthError] = None
                try:
                    if any(key == _WATCH_IS_OPEN for key, _ in await stream.initial_metadata()):
                        silence.heard()
                    while (event := await stream.read()) is not None:
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
                    silence.lost(KEEPALIVE_TIMEOUT_MS / 1000 if was_silent(error) else 0.0)
                finally:
                    stream.cancel()
                if problem is None:
                    try:
                        if ended or await has_ended():
                            return
                    except Unavailable as error:
                        problem = error
                pause = pauses.next()
                if pause is None:
                    raise problem or HearthError(grpc.StatusCode.UNAVAILABLE,
                                                 "the watch ended early")
                await self._transport.pause(pause)
        finally:
            silence.close()

    async def resume(self, attempt: Callable[[Callable[[], None]], Awaitable[Result]]) -> Result:
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
                    return await attempt(heard)
                except Unavailable as error:  # Of a call that it made.
                    problem: HearthError = error
                    silence.lost()
                except grpc.RpcError as error:
                    problem = from_rpc(error, self.server)
                    silence.lost(KEEPALIVE_TIMEOUT_MS / 1000 if was_silent(error) else 0.0)
                if problem.code not in _BROKEN:
                    raise problem
                pause = pauses.next()
                if pause is None:
                    raise problem
                await self._transport.pause(pause)
        finally:
            silence.close()

    async def stream(self, method: str, request: Message,
                     response: type[Response]) -> AsyncGenerator[Response, None]:
        """The messages of one stream of the daemon's. Raises grpc.RpcError: see resume."""
        stream = self._transport.stream(method, request, response)
        try:
            while (message := await stream.read()) is not None:
                yield message
        finally:
            stream.cancel()

    async def send(self, method: str, requests: Iterator[Message],
                   response: type[Response]) -> Response:
        """The answer to one stream of messages. Raises grpc.RpcError: see resume."""
        return await self._transport.send(method, requests, response)

    async def work(self, job: Callable[[], Result]) -> Result:
        """What `job`, which takes long and makes no call, returns."""
        return await self._transport.work(job)

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

    def next(self) -> Optional[float]:
        """The seconds of the next one; None once patience is at its end."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        pause = self._next
        if now - self._began + pause > self._patience:
            return None
        self._next = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return pause
