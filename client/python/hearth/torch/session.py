"""A feed job and the connection to it, which the loaders of one client with equal specs share.

  1. The first batch, or the first question for sizes, submits the job, attaches to it and waits
     for its welcome.
  2. One pass is open at a time. A loader that asks for a batch while another loader's pass is
     open opens its own, which stops the other; that one opens anew at its next batch when it is
     asked again. Numbers of passes grow, so that batches of a stopped pass are known by theirs:
     their slots go back unseen. A pass over requests is opened with all that the script has not
     had the batches of.
  3. Where the connection breaks, the feed attaches again and opens the pass at the first batch
     that the script has not had. It opens a pass again, too, that a daemon refuses while it drains.
  4. When the last loader leaves, the feed says bye. The connection, unless it is a stream, then
     stays for the slots that tensors are left over.

Trainers that share batches have a feed of the same job each. The first of them submits the job
when the loader is made, since all make it alike; the daemon begins a pass when all have opened it.

A feed belongs to the process that made it. Its lock is held while a batch is awaited.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterator, Mapping, Optional, Sequence
from weakref import WeakSet, WeakValueDictionary

import grpc

from hearth.errors import (HearthError, InvalidRequest, JobFailed, Unavailable, code_of,
                           invalid)
from hearth.options.specs import METRICS
from hearth.options.values import Value
from hearth.torch.attachment import FeedJob, Link
from hearth.torch.batches import Lent
from hearth.torch.device_copies import InFlight
from hearth.torch.nodes import Nodes
from hearth.torch.trainers import Trainers
from hearth.torch.wire import ConnectionLost
from hearth.v1 import feeds_pb2, spec_pb2

if TYPE_CHECKING:
    from hearth.client import Client, Job

_TURN_SECONDS = 1.0
# A wait after which other feeds of this process give up their place, and one that is told.
_YIELD_SECONDS = 2.0
_TOLD_SECONDS = 10.0
_BYE_SECONDS = 2.0
# A job that has waited begins again for a moment, and other trainers say bye, too.
_END_SECONDS = 10.0
# Ids in a message: it has 64 KiB at most, an id ten bytes.
_REQUESTED_IDS = 4096
_METRICS = {"classes": "accuracy", "multi_label": "micro_f1", "targets": "mse"}
_log = logging.getLogger("hearth")


@dataclass
class Run:
    """One pass of a loader, as far as the script has come."""

    split: feeds_pb2.FeedSplit
    layout: feeds_pb2.FeedLayout
    epoch: int
    next_batch: int
    """The first batch that the script has not had."""
    all_labels: bool = False
    """Whether labels of all nodes are wanted."""
    is_over: bool = False
    """Whether no batch follows: the pass is finished, or no more are wanted."""
    is_finished: bool = False
    """Whether the script has had all batches."""
    is_begun: bool = False
    """Whether the script has asked for a batch."""
    requests: Optional[deque[Sequence[int]]] = None
    """Seeds of each batch that the script has asked for and not had; None: the seeds are those
    of the split."""
    error: Optional[HearthError] = None
    """Why the daemon has ended the pass before its last batch."""
    is_copied: bool = False
    """Whether all batches are copied to a GPU, which leaves their slots soon."""


@dataclass
class Arrived:
    """A batch in its slots."""

    message: feeds_pb2.FeedBatch
    lent: Lent
    is_to_be_copied: bool
    """Whether the slots are needed for the next batches."""


class Feed:
    """One feed job. Thread-safe."""

    def __init__(self, client: Client, options: Mapping[str, Value], trainers: Trainers) -> None:
        self._job = FeedJob(client, options, trainers.channel)
        self._trainers = trainers
        # A pass of several trainers is not opened anew, since that would end the others': the
        # daemon goes on with it where it was.
        self._is_shared = trainers.size > 1
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._loaders = 0
        self._link: Optional[Link] = None
        self._welcome: Optional[feeds_pb2.FeedWelcome] = None
        self._error: Optional[HearthError] = None
        self._last_pass = 0
        self._open: Optional[Run] = None
        self._arrived: Optional[Arrived] = None
        self.in_flight = InFlight()
        self._times = _Times()
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return f"Feed({self._job.id or 'no job yet'})"

    @property
    def id(self) -> str:
        """Id of the job; empty: there is none yet."""
        return self._job.id

    def submit(self) -> str:
        """Submits the job unless there is one; returns its id."""
        return self._job.submit()

    def takes(self, split: str, nodes: Optional[Nodes]) -> bool:
        """Whether a loader with these seeds for a split may use it: see FeedJob.takes."""
        return self.is_usable and self._job.takes(split, nodes)

    def join(self, id: str) -> None:
        """The job is one that the first of the trainers has submitted."""
        self._job.join(id)

    def enter(self) -> None:
        """Counts a loader."""
        with self._lock:
            self._loaders += 1

    def leave(self) -> None:
        """A loader of `enter` is closed. The last one ends the job, which has succeeded."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._loaders -= 1
            if self._loaders or self._error is not None:
                return
            if self._welcome is None and self._is_shared:
                # The others wait for a bye even of one that has asked for nothing.
                with contextlib.suppress(HearthError, OSError):
                    self._link = self._job.connect()
            if self._link is None:
                return
            self._link.send(seconds=self._times.taken())
            self._link.send(bye=feeds_pb2.FeedBye())
            self._part(HearthError(grpc.StatusCode.FAILED_PRECONDITION,
                                   f"{self._job.id} has ended: its loaders are closed"))

    def job(self) -> Job:
        """The job in its current state; it is submitted if need be."""
        if not self._job.id:
            self.welcome()
        return self._job.record()

    def await_end(self) -> None:
        """After the last `leave`: waits a little until the job has ended."""
        if self._error is not None:
            self._job.await_end(_END_SECONDS)

    @property
    def is_usable(self) -> bool:
        """Whether further loaders may use it."""
        return self._error is None

    def welcome(self) -> feeds_pb2.FeedWelcome:
        """What the daemon has said about the data; waits for it."""
        self.check_process()
        with self._lock:
            if self._error is not None:
                raise self._error
            wait = _Wait()
            while self._welcome is None:
                self._turn(wait)
            return self._welcome

    def seen(self) -> Optional[feeds_pb2.FeedWelcome]:
        """What the daemon has said so far."""
        return self._welcome

    def next(self, run: Run) -> Optional[Arrived]:
        """The next batch of a pass, which is opened if it is not; None at its end. Raises
        HearthError for a pass that ends early."""
        self.check_process()
        with self._lock, self._timed():
            wait = _Wait()
            if self._open is not run:
                self._arrived = None
            while not run.is_over and self._arrived is None:
                self._turn(wait, run)
            if run.error is not None:
                raise run.error
            arrived, self._arrived = self._arrived, None
            return arrived

    def ready(self, run: Run) -> Optional[Arrived]:
        """The next batch of the open pass, if it has come and the daemon has credits for more.
        Never waits for one."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            with self._timed(), contextlib.suppress(HearthError):
                # What is wrong is found again when a batch is awaited.
                while self._open is run and self._arrived is None and self._has_more():
                    self._step(_Wait())
            if self._open is not run:
                return None
            arrived, self._arrived = self._arrived, None
            return arrived
        finally:
            self._lock.release()

    def ask(self, run: Run, nodes: Sequence[int]) -> None:
        """Asks for the next batch of a pass over requests, which `next` then gives. It is sent at
        once if the pass is open."""
        self.check_process()
        with self._lock:
            assert run.requests is not None
            run.requests.append(nodes)
            if self._open is run and self._link is not None and not self._link.is_paused:
                self._send_request(self._link, nodes)

    def stop(self, run: Run) -> None:
        """No more batches of a pass are wanted."""
        run.is_over = True
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._open is run:
                self._open = self._arrived = None
                if self._link is not None:
                    self._link.send(close=feeds_pb2.FeedClose(**{"pass": self._last_pass}))
                    self._link.slots.flush()
            self.in_flight.finish()

    def report(self, epoch: int, loss: float, metric: Optional[float],
               metric_name: Optional[str]) -> None:
        """Tells the daemon of an epoch of the script's training, as the first of its
        trainers."""
        welcome = self.welcome()
        name = metric_name or _METRICS.get(welcome.labels, "")
        if metric is not None and name not in METRICS:
            raise invalid("metric_name", f"{name!r} is not one of {', '.join(METRICS)}")
        if self._trainers.rank > 0:
            return
        with self._lock:
            wait = _Wait()
            while self._link is None or not self._link.is_welcome:
                self._turn(wait)
            self._link.send(epoch=feeds_pb2.FeedEpoch(
                epoch=epoch, loss=loss, metric=name if metric is not None else "",
                valid_metric=metric))

    def yield_place(self) -> None:
        """Lets others have the memory, unless a batch is awaited. A pass that is open opens anew
        when it is asked."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            link = self._link
            if link is not None and link.is_welcome and not link.has_yielded:
                if not self._is_shared:
                    self._open = None
                link.has_yielded = True
                link.send(**{"yield": feeds_pb2.FeedYield()})
                self.in_flight.sweep()
                link.slots.flush()
        finally:
            self._lock.release()

    def check_process(self) -> None:
        """Raises RuntimeError in children of the process that made it."""
        if os.getpid() != self._process:
            raise RuntimeError("a loader works in the process that made it, not in its children: "
                               "make the loader after the fork")

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        """The script asks for a batch, until it is left."""
        self._times.asked()
        try:
            yield
        finally:
            self._times.answered()
            if self._link is not None and self._times.are_due:
                self._link.send(seconds=self._times.taken())

    def _has_more(self) -> bool:
        """Whether there is something to read, and a credit left when it is a batch."""
        link, welcome = self._link, self._welcome
        if link is None or welcome is None:
            return False
        self.in_flight.sweep()
        return link.slots.held < welcome.credits - 1 and link.wire.wait(0)

    def _turn(self, wait: _Wait, run: Optional[Run] = None) -> None:
        """One step to the next batch of `run`, or to the welcome: takes a second at most, but for
        attaching, and for a pause where another try is needed."""
        problem = self._step(wait, run)
        if problem is not None:
            self._job.pause(problem)

    def _step(self, wait: _Wait, run: Optional[Run] = None) -> Optional[Unavailable]:
        """`_turn` without the pause: returns what it is for."""
        if self._error is not None:
            raise self._error
        is_between_steps = False
        try:
            link = self._link = self._link or self._attached()
            self.in_flight.sweep()
            link.slots.flush()
            if run is not None and link.is_welcome and (self._open is not run or link.is_paused):
                self._ask_for(link, run)
            is_between_steps = True
            is_readable = link.wire.wait(_TURN_SECONDS)
            is_between_steps = False
            if not is_readable:
                self._waited(link, wait)
                return None
            message, descriptor = link.wire.read()
            try:
                return self._take(link, message, descriptor)
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
        except ConnectionLost:
            self._drop_link()
            return Unavailable(grpc.StatusCode.UNAVAILABLE,
                               f"{self._job.id}: the daemon closes the connection")
        except BaseException:
            # An interrupt amid a step may have lost what was read: the daemon is to begin anew.
            if not is_between_steps:
                self._drop_link()
            raise

    def _attached(self) -> Link:
        try:
            return self._job.attach()
        except JobFailed as error:
            self._error = error
            raise
        except InvalidRequest as error:
            if self._is_shared:
                # The job of all trainers has ended.
                self._error = error
            raise

    def _part(self, why: HearthError) -> None:
        """Ends the use of the job. The connection stays for slots of the daemon that tensors are
        left over."""
        self._error = why
        link, self._link = self._link, None
        self._open = self._arrived = None
        if link is None:
            return
        self.in_flight.finish()
        link.slots.flush()
        if link.slots.held and link.slots.are_shared:
            link.slots.when_all_are_back(lambda: link.wire.end(0.0))
        else:
            link.wire.end(_BYE_SECONDS)

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.wire.close()
        self._link = self._open = self._arrived = None

    def _ask_for(self, link: Link, run: Run) -> None:
        if self._open is run and self._is_shared:
            # A sign that reaches a job that waits.
            link.is_paused = False
            link.send(release=feeds_pb2.FeedRelease())
        else:
            self._open_pass(link, run)

    def _open_pass(self, link: Link, run: Run) -> None:
        self._last_pass += 1
        link.has_yielded = link.is_paused = link.has_begun = False
        link.send(open=feeds_pb2.FeedOpen(split=run.split, layout=run.layout, epoch=run.epoch,
                                          first_batch=run.next_batch,
                                          all_labels=run.all_labels,
                                          **{"pass": self._last_pass}))
        for nodes in run.requests or ():
            self._send_request(link, nodes)
        # Last: a pass that the daemon does not know cannot be closed.
        self._open = run

    def _send_request(self, link: Link, nodes: Sequence[int]) -> None:
        for begin in range(0, max(len(nodes), 1), _REQUESTED_IDS):
            end = begin + _REQUESTED_IDS
            link.send(request=feeds_pb2.FeedRequest(
                nodes=nodes[begin:end], goes_on=end < len(nodes), **{"pass": self._last_pass}))

    def _take(self, link: Link, message: feeds_pb2.FeedDown,
              descriptor: int) -> Optional[Unavailable]:
        """Returns why the pass is to be opened again after a pause, if it is."""
        kind = message.WhichOneof("message")
        if kind == "slot":
            link.slots.add(message.slot.id, message.slot.bytes, descriptor)
        elif kind == "drop":
            link.slots.drop(message.drop.slots)
        elif kind == "batch":
            self._take_batch(link, message.batch)
        elif kind == "end":
            return self._end_pass(message.end)
        elif kind == "welcome":
            self._welcome = message.welcome
            link.is_welcome = True
            self._job.is_well()
            if link.has_begun and not self._is_shared:
                # The job has waited amid the pass.
                self._open = None
        elif kind == "error":
            self._fail(code_of(message.error.code), message.error.message)
        return None

    def _end_pass(self, end: feeds_pb2.FeedEnd) -> Optional[Unavailable]:
        if self._open is None or getattr(end, "pass") != self._last_pass:
            return None
        run, self._open = self._open, None
        code, text = code_of(end.error.code), f"{self._job.id}: {end.error.message}"
        if code is grpc.StatusCode.UNAVAILABLE:
            # The daemon drains: the pass is opened again, maybe after its next start.
            return Unavailable(code, text)
        run.is_over = True
        if end.HasField("error"):
            run.error = HearthError(code, text)
        else:
            run.is_finished = True
        return None

    def _take_batch(self, link: Link, message: feeds_pb2.FeedBatch) -> None:
        if self._open is None or getattr(message, "pass") != self._last_pass:
            link.slots.give_back(message.slots)
            return
        link.has_begun = True
        self._job.is_well()
        assert self._welcome is not None
        if self._open.is_copied:
            self._arrived = Arrived(message, link.slots.lend(message, is_shared=True), True)
            return
        is_hoarded = link.slots.held >= self._welcome.credits - 1
        if is_hoarded:
            self._times.copies += 1
            self._warn("the script keeps %d batches: the next ones are copied, so that the daemon "
                       "can go on; `prefetch_factor` allows more", self._welcome.credits - 1)
        elif link.slots.is_written:
            self._warn("the script writes into x: batches are copied, which takes less time than "
                       "copying page by page; write into a new tensor instead")
        self._arrived = Arrived(message, link.slots.lend(message),
                                is_hoarded or link.slots.is_written)

    def _fail(self, code: grpc.StatusCode, message: str) -> None:
        text = message if message.startswith(self._job.id) else f"{self._job.id}: {message}"
        self._part(Unavailable(code, text) if code is grpc.StatusCode.UNAVAILABLE
                   else JobFailed(self._job.id, code, text))

    def _waited(self, link: Link, wait: _Wait) -> None:
        """A batch does not come: others give up their place, and people are told."""
        if wait.is_first_after(_YIELD_SECONDS):
            for other in list(_feeds):
                if other is not self:
                    other.yield_place()
        if wait.is_first_after(_TOLD_SECONDS):
            # The call may take long, where the daemon is stopped.
            threading.Thread(target=self._job.explain_wait, args=[link, _TOLD_SECONDS],
                             daemon=True).start()

    def _warn(self, words: str, *more: object) -> None:
        if words not in self._warned:
            self._warned.add(words)
            _log.warning(f"{self._job.id}: {words}", *more)


class _Wait:
    """A wait for a batch."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._passed = 0.0

    def is_first_after(self, seconds: float) -> bool:
        """Whether the wait has taken so long, the first time that it has."""
        if not self._passed < seconds <= time.monotonic() - self._began:
            return False
        self._passed = seconds
        return True


class _Times:
    """Seconds of waits and of the script's own work, for FeedSeconds."""

    def __init__(self) -> None:
        self.copies = 0
        self._wait = self._script = 0.0
        self._changed: Optional[float] = None
        self._told = time.monotonic()

    @property
    def are_due(self) -> bool:
        return time.monotonic() - self._told >= 1.0

    def asked(self) -> None:
        """The script asks for a batch."""
        now = time.monotonic()
        if self._changed is not None:
            self._script += now - self._changed
        self._changed = now

    def answered(self) -> None:
        """The script gets the batch."""
        now = time.monotonic()
        if self._changed is not None:
            self._wait += now - self._changed
        self._changed = now

    def taken(self) -> feeds_pb2.FeedSeconds:
        """What has not been told yet."""
        told = feeds_pb2.FeedSeconds(wait=self._wait, script=self._script, copies=self.copies)
        self._wait, self._script, self.copies = 0.0, 0.0, 0
        self._told = time.monotonic()
        return told


_feeds: WeakSet[Feed] = WeakSet()
# By process, client and spec, and by number, as they were made.
_shared: WeakValueDictionary[tuple[int, int, bytes, int], Feed] = WeakValueDictionary()
_numbers = itertools.count()
_choosing = threading.Lock()


def feed_of(client: Client, options: Mapping[str, Value], spec: spec_pb2.FeedSpec,
            trainers: Trainers, split: str, nodes: Optional[Nodes]) -> Feed:
    """The feed that a loader over `split`, or over nodes in its place, uses, entered: that of
    other loaders of the client with an equal spec, if there are any, and their seeds allow it."""
    key = os.getpid(), id(client), spec.SerializeToString(deterministic=True)

    def new() -> Feed:
        made = Feed(client, options, trainers)
        made.takes(split, nodes)
        _shared[(*key, next(_numbers))] = made
        return made

    with _choosing:
        # The newest first.
        others = sorted(((known[3], feed) for known, feed in list(_shared.items())
                         if known[:3] == key), key=lambda one: -one[0])
        feed = next((one for _, one in others if one.takes(split, nodes)), None) or new()
        if trainers.size > 1:
            seeds = nodes.sha256 if nodes is not None else "the split"
            job, agreed = trainers.agree(lambda: f"{feed.submit()} {seeds}").split(" ", 1)
            if agreed != seeds:
                raise invalid("input_nodes", "differ from those of the first process: all "
                              "processes give the whole, and get their shards")
            if feed.id not in ("", job):
                # The first trainer has closed its loaders of that job, and this one has not yet.
                feed = new()
            feed.join(job)
        _feeds.add(feed)
        feed.enter()
        return feed
