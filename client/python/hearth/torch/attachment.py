"""The job of a feed, and connections to it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Mapping, Optional, Union

import grpc

from hearth.connection import Pauses
from hearth.errors import HearthError, InvalidRequest, JobFailed, Unavailable
from hearth.jobs import JobState
from hearth.options.values import Value
from hearth.torch.nodes import Nodes
from hearth.torch.slots import AnyWire, Slots
from hearth.torch.stream import StreamWire
from hearth.torch.wire import Wire
from hearth.v1 import feeds_pb2, spec_pb2

if TYPE_CHECKING:
    from hearth.client import Client, Job

# ALREADY_EXISTS: the daemon has not noticed yet that the last connection has gone.
_WORTH_ANOTHER_TRY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
                      grpc.StatusCode.ALREADY_EXISTS)
_Message = Union[feeds_pb2.FeedOpen, feeds_pb2.FeedClose, feeds_pb2.FeedYield,
                 feeds_pb2.FeedSeconds, feeds_pb2.FeedBye, feeds_pb2.FeedEpoch,
                 feeds_pb2.FeedRelease, feeds_pb2.FeedRequest]
_POLL_SECONDS = 0.01
_log = logging.getLogger("hearth")


class Link:
    """A connection, its slots, and what has been said over it."""

    def __init__(self, wire: AnyWire) -> None:
        self.wire = wire
        self.slots = Slots(wire)
        self.is_welcome = False
        self.has_yielded = False
        self.is_paused = False
        """Whether the job waits amid the open pass."""
        self.has_begun = False
        """Whether the open pass has had batches."""

    def send(self, **message: _Message) -> None:
        self.wire.send(feeds_pb2.FeedUp(**message))  # type: ignore[arg-type]


class FeedJob:
    """A job that is submitted when it is attached to for the first time, unless it has been
    before, maybe by another of its trainers."""

    def __init__(self, client: Client, options: Mapping[str, Value], rank: int) -> None:
        self.id = ""
        # By splits, what loaders have chosen as seeds: nodes, or the dataset's split. Splits that
        # none has chosen are the dataset's once the job is submitted.
        self._nodes: dict[str, Optional[Nodes]] = {}
        self._is_decided = False
        self._deciding = threading.Lock()
        self._rank = rank
        self._client = client
        self._options = dict(options)
        self._pauses = Pauses(client.watch_patience)

    def record(self) -> Job:
        """The job in its current state."""
        return self._client.job(self.id)

    def attach(self) -> Link:
        """A new connection. A job that there was is tried for the client's `watch_patience`.
        Raises JobFailed if the job has ended, and HearthError: InvalidRequest as `connect`."""
        if not self.id:
            return self._submit_and_connect()
        while True:
            try:
                return self.connect()
            except OSError as error:
                self.pause(Unavailable(grpc.StatusCode.UNAVAILABLE, f"{self.id}: {error}"))
            except InvalidRequest:
                raise
            except HearthError as error:
                if error.code not in _WORTH_ANOTHER_TRY:
                    self._raise_end()
                    raise
                self.pause(error)

    def takes(self, split: str, nodes: Optional[Nodes]) -> bool:
        """Whether the seeds of `split` are these nodes, or None: the dataset's. They are from now
        on, if that was still open."""
        with self._deciding:
            if not self._is_decided:
                self._nodes.setdefault(split, nodes)
            return self._nodes.get(split) == nodes

    def join(self, id: str) -> None:
        """The job is one that the first of the trainers has submitted."""
        self._decide()
        self.id = id

    def submit(self) -> str:
        """Submits the job unless there is one; returns its id."""
        if not self.id:
            self.id = self._client.submit_feed(self._options, [
                spec_pb2.FeedNodes(split=split, count=nodes.count, sha256=nodes.sha256)
                for split, nodes in self._decide().items()]).id
        return self.id

    def connect(self) -> Link:
        """One attempt to attach, with the nodes for the job. Raises OSError, and HearthError:
        InvalidRequest for wrong nodes, which end the job."""
        if self._rank == 0:
            # The daemon takes none that it has.
            for nodes in self._decide().values():
                try:
                    self._client.put_nodes(self.id, nodes.sha256, nodes.ids)
                except InvalidRequest:
                    # The other trainers are not to wait for nodes that will not come.
                    self._cancel(self.id)
                    raise
        server = self._client.server
        address = self._client.attach_feed(self.id, self._rank,
                                           stream=not server.startswith("unix:"))
        if address.path:
            return Link(Wire(address.path, address.ticket))
        return Link(StreamWire(self._client.stream_feed, server, address.ticket))

    def pause(self, problem: HearthError) -> None:
        """Waits before the next attempt to attach; raises `problem` when there were enough."""
        seconds = self._pauses.next()
        if seconds is None:
            self._pauses.reset()
            raise problem from None
        time.sleep(seconds)

    def is_well(self) -> None:
        """Patience begins anew at the next break."""
        self._pauses.reset()

    def await_end(self, seconds: float) -> None:
        """Waits until the job has ended, for some seconds at most."""
        until = time.monotonic() + seconds
        with contextlib.suppress(HearthError):
            while not self.record().state.has_ended and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)

    def explain_wait(self, link: Link, seconds: float) -> None:
        """Tells people that no batch has come for some seconds, and why. A job that waits, as it
        may after a pause of the script, is to hear again that a pass is wanted."""
        with contextlib.suppress(HearthError):
            job = self.record()
            why = f" ({job.waiting_reason})" if job.waiting_reason else ""
            _log.warning("no batch has come for %.0f s; %s is %s%s", seconds, job.id,
                         job.state.value.lower(), why)
            link.is_paused = link.has_begun and job.state is JobState.WAITING

    def _submit_and_connect(self) -> Link:
        self.submit()
        try:
            return self.connect()
        except BaseException as error:
            job, self.id = self.id, ""
            self._cancel(job)
            if isinstance(error, OSError):
                raise Unavailable(grpc.StatusCode.UNAVAILABLE,
                                  f"the socket of feeds cannot be reached: {error}") from None
            raise

    def _cancel(self, job: str) -> None:
        with contextlib.suppress(HearthError):
            self._client.cancel(job)

    def _decide(self) -> dict[str, Nodes]:
        """The nodes by the splits whose place they take; loaders change them no more."""
        with self._deciding:
            self._is_decided = True
            return {split: nodes for split, nodes in sorted(self._nodes.items())
                    if nodes is not None}

    def _raise_end(self) -> None:
        """Raises the error of the job if it has ended by one."""
        try:
            job = self.record()
        except HearthError:
            return
        if job.error is not None:
            raise JobFailed(job.id, job.error.code,
                            f"{job.id}: {job.error.message}") from None
        if job.state is JobState.CANCELLED:
            raise JobFailed(job.id, grpc.StatusCode.CANCELLED,
                            f"{job.id} was cancelled") from None
