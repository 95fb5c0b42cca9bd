"""A daemon's side of feeds, within the test's process: jobs by a FakeDaemon, batches over a
socket of packets, in sealed memory files, with credits; or over a stream, in pieces."""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
import select
import socket
import threading
import time

import grpc
import numpy

from fake_daemon import FakeDaemon, Refusal
from hearth.v1 import datasets_pb2, feeds_pb2, jobs_pb2

_ADD_SEALS = 1033
_SEALS = 0x1 | 0x2 | 0x4 | 0x10  # SEAL, SHRINK, GROW, FUTURE_WRITE
_SPLITS = {feeds_pb2.FEED_TRAIN: "train", feeds_pb2.FEED_VALID: "valid",
           feeds_pb2.FEED_TEST: "test", feeds_pb2.FEED_REQUESTS: "requests"}
TYPES = [("paper", 6), ("author", 4)]
EDGE_TYPES = ["author:writes:paper", "paper:cites:paper"]
_PIECE_BYTES = 1000
_TYPES = {"float32": feeds_pb2.FeedArray.FLOAT32, "int64": feeds_pb2.FeedArray.INT64}


class Batch:
    """A batch that depends on its split, epoch and number alone."""

    def __init__(self, graph, split, epoch, number, layout, seeds, nodes=None):
        self.random = numpy.random.default_rng([split, epoch, number])
        self.seeds = seeds
        self.nodes = nodes  # The seeds that were asked for; else any.
        self.arrays = {}  # By name, type and layer.
        self.fields = {}
        if layout == feeds_pb2.FEED_LAYERS:
            self._add_layers(graph)
        elif graph.is_typed:
            self._add_types(graph)
        else:
            self._add_graph(graph)
        has_types = graph.is_typed and layout == feeds_pb2.FEED_GRAPH
        self.put("y", self.random.integers(0, 5, seeds), 0 if has_types else None)
        self.put("input_id", self.random.permutation(1000)[:seeds], 0 if has_types else None)

    def put(self, name, values, of_type=None, layer=None):
        dtype = "float32" if values.dtype.kind == "f" else "int64"
        self.arrays[name, of_type, layer] = numpy.ascontiguousarray(values, dtype=dtype)

    def _nodes(self, count, dim):
        self.put("x", self.random.random((count, dim)))

    def _ids(self, count, of_type=None):
        ids = self.random.permutation(1000)[:count]
        if self.nodes is not None and not of_type:
            others = numpy.setdiff1d(ids, self.nodes)[:count - self.seeds]
            ids = numpy.concatenate([self.nodes, others])
        self.put("n_id", ids, of_type)

    def _edges(self, sources, destinations, count):
        return numpy.stack([self.random.integers(0, sources, count),
                            numpy.sort(self.random.integers(0, destinations, count))])

    def _add_graph(self, graph):
        added = [self.seeds, *self.random.integers(1, 9, 2).tolist()]
        met, edges = added[0], []
        for count in added[1:]:
            edges.append(self._edges(met + count, met, 7))
            met += count
        self._nodes(met, graph.dim)
        self._ids(met)
        self.put("in_degrees", self.random.integers(1, 9, met))
        self.put("edge_index", numpy.concatenate(edges, axis=1))
        self.fields = {"num_sampled_nodes": [{"counts": added}],
                       "num_sampled_edges": [{"counts": [7, 7]}]}

    def _add_types(self, graph):
        counts = [self.seeds + 8, 6]
        self._nodes(sum(counts), graph.dim)
        places = self.random.permutation(numpy.arange(self.seeds, sum(counts)))
        rows = [numpy.concatenate([numpy.arange(self.seeds), places[:8]]), places[8:]]
        for i, count in enumerate(counts):
            self.put("rows", rows[i], i)
            self._ids(count, i)
            self.put("in_degrees", self.random.integers(1, 9, count), i)
        # All nodes of the first hop are found by edges of seeds.
        self.put("edge_index", self._edges(3, self.seeds, 5), 0)
        self.put("edge_index", self._edges(self.seeds + 4, self.seeds, 6), 1)
        self.fields = {
            "num_sampled_nodes": [{"type": 0, "counts": [self.seeds, 4, 4]},
                                  {"type": 1, "counts": [0, 3, 3]}],
            "num_sampled_edges": [{"type": 0, "counts": [5, 0]}, {"type": 1, "counts": [6, 0]}]}

    def _add_layers(self, graph):
        sizes = [self.seeds + 9, self.seeds + 4, self.seeds]
        self._nodes(sizes[0], graph.dim)
        self.put("n_id", self.random.permutation(1000)[:sizes[0]])
        self.put("in_degrees", self.random.integers(1, 9, sizes[0]))
        for i, (sources, destinations) in enumerate(zip(sizes, sizes[1:])):
            self.put("edge_index", self._edges(sources, destinations, 8), layer=i)
        if graph.is_typed:
            self._add_types_of_layers(sizes)
        self.fields = {"layers": [{"num_sources": sources, "num_destinations": destinations}
                                  for sources, destinations in zip(sizes, sizes[1:])]}

    def _add_types_of_layers(self, sizes):
        # Destinations are papers; some of what they cite is written by authors.
        types = numpy.zeros(sizes[0], numpy.int64)
        types[sizes[1]:] = self.random.integers(0, 2, sizes[0] - sizes[1])
        self.put("node_type", types)
        self.put("n_id", self.arrays["n_id", None, None] + 1000 * types)
        for i in range(len(sizes) - 1):
            sources = self.arrays["edge_index", None, i][0]
            self.put("edge_type", 1 - types[sources], layer=i)


class Graph:
    """What a feed's batches are made of."""

    def __init__(self, is_typed=False, dim=6, batches=None, seeds=4, last=3):
        self.is_typed = is_typed
        self.dim = dim
        self.batches = batches or {"train": 7, "valid": 3, "test": 2}
        self.seeds, self.last = seeds, last

    def batch(self, split, epoch, number, layout=feeds_pb2.FEED_GRAPH):
        is_last = number == self.batches.get(_SPLITS[split], 0) - 1
        return Batch(self, split, epoch if split == feeds_pb2.FEED_TRAIN else 0, number, layout,
                     self.last if is_last else self.seeds)

    def requested(self, number, nodes):
        return Batch(self, feeds_pb2.FEED_REQUESTS, 0, number, feeds_pb2.FEED_GRAPH, len(nodes),
                     nodes)

    def welcome(self, credits):
        types = TYPES if self.is_typed else [("", self.dim)]
        counts = {f"{split}_batches": count for split, count in self.batches.items()}
        seeds = {f"{split}_seeds": (count - 1) * self.seeds + self.last
                 for split, count in self.batches.items()}
        return feeds_pb2.FeedWelcome(
            **counts, **seeds, labels="classes", label_width=5, credits=credits,
            fingerprint="f1", feature_dim=self.dim,
            node_types=[{"name": name, "feature_dim": dim, "num_nodes": 1000}
                        for name, dim in types],
            edge_types=EDGE_TYPES if self.is_typed else ["::"], target=types[0][0])


    def dataset(self, name):
        types = TYPES if self.is_typed else [("", self.dim)]
        return datasets_pb2.Dataset(name=name, node_types=[
            {"name": kind, "num_nodes": 1000, "feature_dim": dim, "label_width": 5,
             "num_train": 0 if i else 27} for i, (kind, dim) in enumerate(types)])


class _Slot:
    def __init__(self, id, size):
        self.id = id
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.file = os.memfd_create(f"slot {id}", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(self.file, self.size)
        self.map = mmap.mmap(self.file, self.size)
        fcntl.fcntl(self.file, _ADD_SEALS, _SEALS)

    def __del__(self):
        os.close(self.file)


class _Session(threading.Thread):
    """A connection: sends batches while the client holds fewer than its credits."""

    def __init__(self, feed, connection):
        super().__init__(daemon=True)
        self.feed, self.connection = feed, connection
        self.job = feed.job.id
        self.slots, self.free, self.out = {}, [], {}
        self.open, self.number, self.last_pass = None, 0, 0
        self.asked, self.partial = [], []
        self.is_waiting = self.stops_reading = self.has_stopped = False
        feed.sessions.append(self)
        self.start()

    def run(self):
        try:
            self._check_hello(self._read())
            if self.feed.holds_welcome.wait(20):
                self.send(welcome=self.feed.graph.welcome(self.feed.credits))
            while self._serve():
                pass
        except (OSError, EOFError):
            pass
        except Exception as error:  # Shown by the test.
            self.feed.violations.append(repr(error))
        finally:
            self.connection.close()

    def send(self, descriptors=(), **message):
        packet = feeds_pb2.FeedDown(**message).SerializeToString()
        assert len(packet) <= 64 << 10
        socket.send_fds(self.connection, [packet], descriptors)

    @property
    def held(self):
        return len(set(self.out.values()))

    def _read(self):
        packet = self.connection.recv(64 << 10)
        if not packet:
            raise EOFError
        message = feeds_pb2.FeedUp.FromString(packet)
        self.feed.ups.append(message)
        return message

    def _check_hello(self, message):
        self.feed.tickets.remove(message.hello.ticket)

    def _serve(self):
        if self.stops_reading:
            self.has_stopped = True
            time.sleep(0.002)
        elif select.select([self.connection], [], [], 0.002)[0]:
            message = self._read()
            kind = message.WhichOneof("message")
            getattr(self, f"on_{kind}")(getattr(message, kind))
        for error in self.feed.errors:
            self.send(error={"code": error[0], "message": error[1]})
            if self.feed.closes_on_error:
                self.feed.errors.clear()
                return False
        self.feed.errors.clear()
        if self.open is not None and self.feed.ends:
            code, words = self.feed.ends.pop()
            self.send(end={"pass": getattr(self.open, "pass"), "batches": self.number,
                           "error": {"code": code, "message": words}})
            self.open = None
        if self.open is not None and not self.is_waiting and not self.feed.is_slow:
            self._go_on()
        return True

    def _go_on(self):
        if self.open.split == feeds_pb2.FEED_REQUESTS:
            if self.asked and self.held < self.feed.credits:
                self._send_batch(self.feed.graph.requested(self.number, self.asked.pop(0)))
                self.number += 1
            return
        end = self.feed.graph.batches[_SPLITS[self.open.split]]
        if self.number >= end:
            self.send(end={"pass": getattr(self.open, "pass"), "batches": end})
            self.open = None
        elif self.held < self.feed.credits:
            self._send_batch(self.feed.graph.batch(self.open.split, self.open.epoch, self.number,
                                                   self.open.layout))
            self.number += 1

    def _send_batch(self, batch):
        x = {key: one for key, one in batch.arrays.items() if key[0] == "x"}
        others = {key: one for key, one in batch.arrays.items() if key[0] != "x"}
        slots, arrays = [], []
        for part in (x, others):
            slot = self._slot(sum(one.nbytes + 64 for one in part.values()))
            slot.map[:] = b"\xee" * slot.size
            offset = 0
            for (name, of_type, layer), values in part.items():
                slot.map[offset:offset + values.nbytes] = values.tobytes()
                arrays.append(feeds_pb2.FeedArray(
                    name=name, type=_TYPES[str(values.dtype)], slot=slot.id, offset=offset,
                    shape=values.shape, of_type=of_type, layer=layer))
                offset += -(-values.nbytes // 64) * 64
            slots.append(slot.id)
        own = {"pass": getattr(self.open, "pass"), "number": self.number}
        self.out.update({id: tuple(own.values()) for id in slots})
        self.feed.sent.append((_SPLITS[self.open.split], self.open.epoch, self.number))
        self.send(batch={**own, "slots": slots, "arrays": arrays, "num_seeds": batch.seeds,
                         "loss_scale": self.feed.loss_scale, **batch.fields})

    def _slot(self, size):
        """The smallest free slot of that size; one that is too small is replaced."""
        fitting = sorted((one for one in self.free if one.size >= size),
                         key=lambda one: one.size)
        if fitting:
            self.free.remove(fitting[0])
            return fitting[0]
        if self.free:
            old = self.free.pop(0)
            del self.slots[old.id]
            self.send(drop={"slots": [old.id]})
        with self.feed.numbering:  # The session of an ended job may go on for a moment.
            self.feed.last_slot += 1
            id = self.feed.last_slot
        slot = self.slots[id] = _Slot(id, size)
        self.send([slot.file], slot={"id": slot.id, "bytes": slot.size})
        return slot

    def on_open(self, message):
        assert getattr(message, "pass") > self.last_pass
        self.last_pass = getattr(message, "pass")
        self.open, self.number = message, message.first_batch
        self.asked, self.partial = [], []
        if self.is_waiting:
            self.is_waiting = False
            self.send(welcome=self.feed.graph.welcome(self.feed.credits))

    def on_request(self, message):
        if self.open is None or getattr(message, "pass") != getattr(self.open, "pass"):
            return
        assert self.open.split == feeds_pb2.FEED_REQUESTS
        self.partial.extend(message.nodes)
        if not message.goes_on:
            self.asked.append(self.partial)
            self.partial = []

    def on_release(self, message):
        for id in message.slots:
            del self.out[id]
            self.free.append(self.slots[id])

    def on_close(self, message):
        assert getattr(message, "pass") <= self.last_pass
        if self.open is not None and getattr(message, "pass") == getattr(self.open, "pass"):
            self.open = None

    def on_yield(self, _):
        self.is_waiting = True

    def on_seconds(self, _):
        pass

    on_epoch = on_seconds

    def on_bye(self, _):
        self.feed.job.state = jobs_pb2.SUCCEEDED
        self.open = None


class FakeFeed:
    """A daemon whose feed jobs have the batches of `graph`. Its clients are on this machine, or
    elsewhere."""

    def __init__(self, folder, graph=None, credits=4, is_elsewhere=False):
        self.graph, self.credits = graph or Graph(), credits
        self.path = str(folder / "feed.sock")
        socket_path = str(folder / "hearth.sock")
        self.daemon = FakeDaemon(socket_path)
        self.address = self.daemon.address if is_elsewhere else f"unix:{socket_path}"
        self.job = jobs_pb2.Job()
        self.specs, self.ups, self.sent, self.errors, self.violations = [], [], [], [], []
        self.ends = []  # Errors of passes that are to end early.
        self.tickets, self.sessions = [], []
        self.nodes = []  # Job, digest and ids of nodes that were sent.
        self.refused_nodes = ""  # Why they are refused.
        self.last_slot = 0
        self.numbering = threading.Lock()
        self.closes_on_error = False
        self.refusal = None  # Code and message with which streams end.
        self.is_slow = False
        self.loss_scale = 1.0
        self.holds_welcome = threading.Event()
        self.holds_welcome.set()
        self.daemon.answers.update(SubmitJob=self._submit, GetJob=lambda _: self.job,
                                   AttachFeed=self._attach, Stream=self._stream,
                                   CancelJob=self._cancel, PutNodes=self._put_nodes,
                                   GetDataset=lambda request: self.graph.dataset(request.name))
        self._listen()

    @property
    def held(self):
        return sum(one.held for one in self.sessions if one.is_alive())

    def messages(self, kind):
        return [getattr(one, kind) for one in list(self.ups) if one.HasField(kind)]

    def kill(self):
        self.daemon.stop()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        os.unlink(self.path)
        for one in self.sessions:
            with contextlib.suppress(OSError):  # It has ended.
                one.connection.shutdown(socket.SHUT_RDWR)
            one.join()

    def start(self):
        self._listen()
        self.daemon.start()

    def stop(self):
        self.kill()
        assert not self.violations, self.violations

    def _listen(self):
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                _Session(self, listener.accept()[0])
            except OSError:
                return

    def _submit(self, request):
        self.specs.append(request.spec.feed)
        self.job = jobs_pb2.Job(id=f"feed-{len(self.specs)}", state="RUNNING", spec=request.spec)
        return self.job

    def _put_nodes(self, requests):
        first, *rest = requests
        self.nodes.append((first.id, first.sha256, b"".join(one.ids for one in rest)))
        if self.refused_nodes:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, self.refused_nodes)
        return feeds_pb2.PutNodesResponse()

    def _attach(self, request):
        assert request.id == self.job.id
        if any(one.is_alive() and one.job == request.id for one in self.sessions):
            raise Refusal(grpc.StatusCode.ALREADY_EXISTS, "another client is connected")
        if self.job.state in (jobs_pb2.CANCELLED, jobs_pb2.FAILED):
            raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "the job has ended")
        self.tickets.append(os.urandom(32))
        return feeds_pb2.AttachFeedResponse(path="" if request.stream else self.path,
                                            ticket=self.tickets[-1])

    def _stream(self, requests):
        """A session of the socket, whose packets are passed on, and slots as pieces."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _Session(self, far)

        def pass_on():
            with contextlib.suppress(Exception):  # The stream or the session has ended.
                for request in requests:
                    near.send(request.SerializeToString())
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=pass_on, daemon=True).start()
        slots = {}
        # A session that ends with unread packets resets the connection. The socket is closed here,
        # as what holds an error holds this frame.
        with near, contextlib.suppress(ConnectionResetError):
            while True:
                packet, files, _, _ = socket.recv_fds(near, 64 << 10, 1)
                if not packet:
                    break
                message = feeds_pb2.FeedDown.FromString(packet)
                for file in files:
                    slots[message.slot.id] = mmap.mmap(file, message.slot.bytes,
                                                       prot=mmap.PROT_READ)
                    os.close(file)
                for array in message.batch.arrays:
                    size = 4 if array.type == feeds_pb2.FeedArray.FLOAT32 else 8
                    end = array.offset + size * math.prod(array.shape)
                    for begin in range(array.offset, end, _PIECE_BYTES):
                        yield feeds_pb2.FeedDown(piece={
                            "slot": array.slot, "offset": begin,
                            "data": slots[array.slot][begin:min(begin + _PIECE_BYTES, end)]})
                yield message
                if message.HasField("error"):
                    break
        if self.refusal:
            raise Refusal(*self.refusal)

    def _cancel(self, request):
        self.job.state = jobs_pb2.CANCELLED
        return self.job
