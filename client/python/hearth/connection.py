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

# Metadata that the daemon sends when a watch has begun, before any event.
_WATCH_IS_OPEN = "hearth-watch"
_SILENCE_LIMIT_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
# Codes of calls and streams whose other side went away. A killed daemon gives UNAVAILABLE; a
# daemon that shuts down may give any of these.
BROKEN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN,
           grpc.StatusCode.DEADLINE_EXCEEDED}
_UNREACHABLE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}

Result = TypeVar("Result")
Event = TypeVar("Event", jobs_pb2.JobEvent, sweeps_pb2.SweepEvent)
WatchRequest = Union[jobs_pb2.WatchJobRequest, sweeps_pb2.WatchSweepRequest]
OnSilence = Callable[[float], None]
NameOf = Callable[[str], str]
_log = logging.getLogger("hearth")


def new_request_id() -> str:
    """A random id with which a request may be repeated and still takes effect once."""
    return str(uuid.uuid4())


def _same(path: str) -> str:
    return path


class Silence:
    """Notices that the other side is silent for 10 s, and that it is heard again.
    Thread-safe."""

    def __init__(self, notice: OnSilence) -> None:
        self._notice = notice
        self._lock = threading.Lock()
        self._timer: Optional[threading.Timer] = None
        self._since = 0.0
        self._told = False

    def heard(self) -> None:
        """To be called when anything comes from the other side."""
        with self._lock:
            if self._timer is None:
                return
            self._timer.cancel()
            self._timer = None
            told, self._told = self._told, False
        if told:
            self._notice(0.0)

    def lost(self, before: float = 0.0) -> None:
        """To be called when the other side stops answering, after `before` seconds of silence;
        no effect during a silence."""
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
        """Ends all notices."""
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
    """One channel to a daemon: repeats calls and resumes watches over a transport. Its coroutines
    suspend where the transport's do: over a blocking transport, never."""

    def __init__(self, transport: Transport, patience: float, watch_patience: float,
                 on_silence: Optional[OnSilence]) -> None:
        self._transport = transport
        self.server = transport.server.address
        self._patience = patience
        self.watch_patience = watch_patience
        self._on_silence = on_silence or self._log_silence

    async def close(self) -> None:
        await self._transport.close()

    async def call(self, method: str, request: Message, response: type[Response],
                   name_of: NameOf = _same) -> Response:
        """Makes a call, and repeats it while the daemon cannot be reached. Any call may be
        repeated: requests that change something have a request id."""
        silence = Silence(self._on_silence)
        pauses = Pauses(self._patience)
        try:
            silence.lost()
            while True:
                try:
                    answer = await self._transport.call(method, request, response)
                except grpc.RpcError as error:
                    problem = from_rpc(error, self.server, name_of)
                    if problem.code not in _UNREACHABLE:
                        silence.heard()
                        raise problem from None
                    pause = pauses.next()
                    if pause is None:
                        raise await self._explained(problem) from None
                    await self._transport.pause(pause)
                else:
                    silence.heard()
                    return answer
        finally:
            silence.close()

    async def _explained(self, problem: HearthError) -> HearthError:
        """`problem`, with the reason for which TLS is refused, if the daemon cannot be reached."""
        server = self._transport.server
        refusal = await self._transport.work(lambda: why_tls_is_refused(server))
        if not refusal:
            return problem
        return Unavailable(problem.code,
                           f"hearthd at {self.server}: TLS was refused: {refusal}")

    async def watch(self, method: str, request: WatchRequest, event_type: type[Event],
                    is_end: Callable[[Event], bool],
                    has_ended: Callable[[], Awaitable[bool]]) -> AsyncGenerator[Event, None]:
        """The events of the job or sweep of `request`, from its from_sequence on, each once and in
        order, until the end.

          1. Stream events from the next wanted number on; after each event, the number after it
             is wanted.
          2. The stream ended well, and its last state was the end: done.
          3. The stream ended well without the end (the daemon stops, or the end came before the
             first wanted number): done if `has_ended`, else as after a break.
          4. The stream broke: pause, unless nothing has come for longer than patience allows, and
             start over. Errors that waiting does not change (NOT_FOUND, say) are raised.
        """
        silence = Silence(self._on_silence)
        pauses = Pauses(self.watch_patience)
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
                    if problem.code not in BROKEN:
                        raise problem from None
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
        """The result of the transfer `attempt`, which is called again after a break, as watches
        are, and goes on by itself. It calls its argument when anything has come."""
        silence = Silence(self._on_silence)
        pauses = Pauses(self.watch_patience)

        def heard() -> None:
            silence.heard()
            pauses.reset()

        try:
            while True:
                try:
                    return await attempt(heard)
                except Unavailable as error:  # From a call of the attempt.
                    problem: HearthError = error
                    silence.lost()
                except grpc.RpcError as error:
                    problem = from_rpc(error, self.server)
                    silence.lost(KEEPALIVE_TIMEOUT_MS / 1000 if was_silent(error) else 0.0)
                if problem.code not in BROKEN:
                    raise problem
                pause = pauses.next()
                if pause is None:
                    raise problem
                await self._transport.pause(pause)
        finally:
            silence.close()

    async def stream(self, method: str, request: Message,
                     response: type[Response]) -> AsyncGenerator[Response, None]:
        """The messages of one stream of the daemon. Raises grpc.RpcError: see resume."""
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
        """The result of `job`, which takes long and makes no calls."""
        return await self._transport.work(job)

    def _log_silence(self, seconds: float) -> None:
        if seconds > 0:
            _log.warning("hearthd at %s has not answered for %.0f s; trying on", self.server,
                         seconds)
        else:
            _log.warning("hearthd at %s answers again", self.server)


class Pauses:
    """Pauses between attempts, each twice as long as the last one, up to 2 s, until patience is
    at its end."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.reset()

    def reset(self) -> None:
        """After a success: the next pause is the first again."""
        self._next = _FIRST_PAUSE_SECONDS
        self._began: Optional[float] = None

    def next(self) -> Optional[float]:
        """Seconds of the next pause; None once patience is at its end."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        pause = self._next
        if now - self._began + pause > self._patience:
            return None
        self._next = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return pause
