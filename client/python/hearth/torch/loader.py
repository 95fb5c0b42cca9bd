"""The loader of mini-batches, in the place of PyG's."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Union

from hearth.client import Client
from hearth.dataset_calls import AnyPath
from hearth.errors import invalid
from hearth.options.specs import FEED, deciding_options, feed_spec
from hearth.options.values import Value
from hearth.packages import geometric, graphbolt, torch
from hearth.private import PrivateDaemon
from hearth.torch.arguments import (SPLITS, NumNeighbors, chosen_split, options_of,
                                    wants_all_labels)
from hearth.torch.batches import Arrays, made
from hearth.torch.device_copies import DeviceCopies, DevicePass, device_of
from hearth.torch.nodes import Nodes, nodes_of
from hearth.torch.origin import Origin, origin_of
from hearth.torch.session import Arrived, Feed, Run, feed_of
from hearth.torch.trainers import Trainers, trainers_of
from hearth.v1 import feeds_pb2, spec_pb2

if TYPE_CHECKING:
    from hearth.client import Job

_STATE_VERSION = 1
_Following = Callable[[], Optional[tuple[Any, int]]]
_log = logging.getLogger("hearth")


class NeighborLoader:
    """Mini-batches of a dataset of the daemon, sampled and assembled by it, for models of your
    own: in the place of torch_geometric.loader.NeighborLoader.

    Each iteration is a pass over the seeds: the nodes of `split` ("train", "valid" or "test").
    That of "train", the default, comes in the order, and with the samples, of the next epoch,
    from 0 on. Loaders of one client with equal options share a job, which ends when the last of
    them is closed or the program ends; only one of their passes is open at a time: another one
    stops it, and it goes on at its next batch.

    `source` is a client of the daemon that has `dataset`, or the path of a folder or file on this
    machine: a private daemon (PrivateDaemon, with `daemon_options`) then imports the graph once,
    in place, as dataset_of does. It goes with the last loader that needs it.

    - `num_neighbors` has a number for each layer, or is a mapping of edge types, ("a", "r", "b")
      or "a:r:b", to such lists.
    - `input_nodes` take the place of `split`, by default of "train", with `shuffle=False` of
      "valid", which has their order: ids among the nodes of the type with the labels, a mask
      over these, or a pair of that type's name and those. They need not be labeled.
    - `labels`: "seeds", or "all" for y of all nodes; -1 or NaN where there is none.
    - `layout`: "pyg" gives Data, or HeteroData for graphs of several types; "layers" a
      LayerBatch; "graphbolt" a MiniBatch of DGL; "tensors" a dict.
    - `device`: "cuda", "cuda:1" or a torch.device copies batches to a GPU, on a stream of the
      loader's own, one batch ahead where it has come.
    - `transform` is called with each batch, and its result is what the script gets.
    - `options` are those of `hearth train` that decide about batches (client/guide/options.md):
      `fanouts` is `num_neighbors` here, `credits` is `prefetch_factor`.

    The processes of torch.distributed share each batch, unless `world_size` is 1: `batch_size` is
    that of all together, and each gets its shard, from one daemon or, on several machines, from
    its machine's: as many processes use each, with a copy of the dataset. All make their loaders, and iterate, alike.
    Where a trainer has left a pass, the others' raises HearthError (ABORTED).
    With DistributedDataParallel, (loss * batch.loss_scale).backward() gives the gradient of the
    mean over the seeds of all, for a `loss` that is the mean over those of the shard.

    Arguments of PyG's loader about workers are taken and do nothing; those that cannot work here
    raise InvalidRequest. Tensors are memory that the daemon shares, or, where the client does not
    come by its Unix socket, of this process: the script may write to them, and keep them, at the
    price of copies.
    """

    def __init__(self, source: Union[Client, AnyPath], *, num_neighbors: NumNeighbors,
                 dataset: Optional[str] = None, batch_size: Optional[int] = None,
                 split: Optional[str] = None, layout: str = "pyg", input_nodes: Any = None,
                 transform: Optional[Callable[[Any], Any]] = None, drop_last: bool = False,
                 prefetch_factor: Optional[int] = None, pin_memory: bool = False,
                 shuffle: Optional[bool] = None, labels: str = "seeds", device: Any = None,
                 world_size: Optional[int] = None,
                 daemon_options: Optional[Mapping[str, Any]] = None, **options: Any) -> None:
        {"pyg": geometric, "graphbolt": graphbolt}.get(layout, torch)()
        self.split = chosen_split(split, shuffle, input_nodes is not None)
        self._all_labels = wants_all_labels(labels, layout)
        self._device = device_of(device)
        self._copies: Optional[DeviceCopies] = None
        self._trainers = trainers_of(world_size)
        self._options = options_of(num_neighbors, layout, batch_size, prefetch_factor, options)
        # Wrong options are found before a daemon is started.
        feed_spec({**self._options, "dataset": "any"})
        origin = origin_of(source, dataset, daemon_options)
        self._options["dataset"] = origin.dataset
        self.layout = layout
        self.transform = transform
        self.drop_last = drop_last
        self.pin_memory = pin_memory
        self._run: Optional[Run] = None
        self._next_epoch = 0
        self._first_batch = 0
        self._wanted_fingerprint = ""
        self._feed: Optional[Feed] = None
        self._nodes: Optional[Nodes] = None
        with _closing_on_error(origin):
            self._trainers = self._trainers.on_daemons(origin.client, origin.dataset)
            if self._trainers.size > 1:
                self._options["trainers"] = self._trainers.of_daemon
            if self._trainers.daemons > 1:
                self._options.update(ranks=self._trainers.daemons, rank=self._trainers.daemon)
            self._spec = feed_spec(self._options)
            self._nodes = nodes_of(input_nodes, origin.client, origin.dataset,
                                   self._spec.data.target)
            self._feed = feed_of(origin.client, self._options, self._spec, self._trainers,
                                 self.split, self._nodes)
        self._end = weakref.finalize(self, _end, self._feed, origin.daemon)

    def __repr__(self) -> str:
        return (f"NeighborLoader(dataset={self._spec.data.dataset!r}, split={self.split!r}, "
                f"batch_size={self.batch_size})")

    def __enter__(self) -> NeighborLoader:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have no client."""
        return {**vars(self), "_spec": self._spec.SerializeToString(), "_run": None,
                "_feed": None, "_end": None, "_copies": None,
                **dict(zip(("_next_epoch", "_first_batch"), self._place()))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _spec=spec_pb2.FeedSpec.FromString(state["_spec"]))

    @property
    def batch_size(self) -> int:
        """Seeds of a batch, of all trainers together; the last one may have fewer."""
        named = FEED.at_path("data.batch_size")
        assert named is not None
        return self._spec.data.batch_size or int(named[0].options[0].description.default_value)

    @property
    def dataset(self) -> range:
        """The seeds' places in the split, or in the nodes in its place."""
        return range(self._seeds())

    @property
    def num_features(self) -> Union[int, dict[str, int]]:
        """Columns of x; by node type in graphs of several."""
        types = self._used().welcome().node_types
        return (types[0].feature_dim if len(types) == 1
                else {one.name: one.feature_dim for one in types})

    @property
    def num_classes(self) -> int:
        """Classes of the seeds, or labels or targets of each; 0 without labels."""
        return int(self._used().welcome().label_width)

    @property
    def job(self) -> Job:
        """The feed job in its current state; it is submitted if need be."""
        return self._used().job()

    def __len__(self) -> int:
        """Batches of a pass."""
        batches: int = getattr(self._used().welcome(), f"{self.split}_batches")
        last = self._seeds() % self.batch_size
        # The daemon leaves out a batch that has not a seed for each trainer.
        is_left_out = last and (self.drop_last or last < self._trainers.size)
        return batches - 1 if is_left_out else batches

    def __iter__(self) -> Iterator[Any]:
        """The batches of the next epoch. Ends the iteration before."""
        feed = self._used()
        self._check_fingerprint(feed.welcome())
        self._stop()
        layout = (feeds_pb2.FEED_GRAPH if self._spec.data.HasField("subgraph")
                  else feeds_pb2.FEED_LAYERS)
        # An iterator that nobody has asked for a batch, as some trainers make to try the loader,
        # is no epoch.
        if self._run is None or self._run.is_begun:
            epoch, first_batch = self._next_epoch, self._first_batch
            self._next_epoch, self._first_batch = epoch + 1, 0
        else:
            epoch, first_batch = self._place()
        run = self._run = Run(SPLITS[self.split], layout, epoch, first_batch, self._all_labels,
                              is_copied=self._device is not None)
        return self._batches(feed, run, len(self))

    def close(self) -> None:
        """Ends the iteration, and the job if no other loader uses it. Tensors stay valid."""
        self._stop()
        self._feed = None
        if self._end is not None:
            self._end()

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from 0."""
        self._stop()
        self._run = None
        self._next_epoch, self._first_batch = epoch, 0

    def report(self, epoch: int, *, loss: float, metric: Optional[float] = None,
               metric_name: Optional[str] = None) -> None:
        """Tells the daemon of an epoch of the training, from 1, for its page, `hearth top` and
        trackers: the mean loss, and the metric on the validation nodes, by default the accuracy
        of classes, micro_f1 of several labels, mse of targets. Of several trainers, the first
        is listened to."""
        if epoch < 1:
            raise invalid("epoch", f"{epoch} is not a whole number from 1 on")
        self._used().report(epoch, float(loss), None if metric is None else float(metric),
                            metric_name)

    def state_dict(self) -> dict[str, Any]:
        """The place of the next batch, for load_state_dict of a loader with equal options."""
        epoch, next_batch = self._place()
        welcome = self._feed.seen() if self._feed is not None else None
        options = self._deciding()
        return {"version": _STATE_VERSION, "split": self.split, "epoch": epoch,
                "next_batch": next_batch, "options": options, "spec": _digest(options),
                "fingerprint": (welcome.fingerprint if welcome is not None
                                else self._wanted_fingerprint)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration begins at the place of a state_dict. ValueError for one of a loader
        with other options that decide about batches."""
        if state["version"] != _STATE_VERSION:
            raise ValueError(f"the state is of version {state['version']}, not {_STATE_VERSION}")
        own = self._deciding()
        if state["split"] != self.split:
            raise ValueError(f"the state is of split {state['split']}, not {self.split}")
        if state["spec"] != _digest(own):
            then: Mapping[str, str] = state["options"]
            raise ValueError("the state is of a loader with other options: " + "; ".join(
                f"{name} was {then.get(name, 'not given')}, and is {own.get(name, 'not given')}"
                for name in sorted({*then, *own}) if then.get(name) != own.get(name)))
        self.set_epoch(int(state["epoch"]))
        self._first_batch = int(state["next_batch"])
        self._wanted_fingerprint = str(state["fingerprint"])
        welcome = self._feed.seen() if self._feed is not None else None
        if welcome is not None:
            self._check_fingerprint(welcome)

    def _deciding(self) -> dict[str, str]:
        """What decides the batches, in words."""
        own = {} if self._nodes is None else {"input_nodes": str(self._nodes)}
        # All trainers have one state, wherever their daemons are.
        spec = spec_pb2.FeedSpec()
        spec.CopyFrom(self._spec)
        if self._trainers.daemons > 1:
            spec.data.trainers = self._trainers.size
            spec.ClearField("ranks")
            spec.ClearField("rank")
        return {**deciding_options(spec), **own}

    def _used(self) -> Feed:
        if self._feed is None:
            raise RuntimeError("the loader is a copy without a client: make one with "
                               "NeighborLoader(...)" if self._end is None else
                               "the loader is closed")
        return self._feed

    def _seeds(self) -> int:
        seeds: int = getattr(self._used().welcome(), f"{self.split}_seeds")
        return seeds

    def _place(self) -> tuple[int, int]:
        """Epoch and number of the next batch."""
        if self._run is None or self._run.is_finished:
            return self._next_epoch, self._first_batch
        return self._run.epoch, self._run.next_batch

    def _stop(self) -> None:
        if self._run is not None and self._feed is not None:
            self._feed.stop(self._run)

    def _batches(self, feed: Feed, run: Run, end: int) -> Iterator[Any]:
        # Nothing here may keep a batch that the script has let go.
        ready: list[Any] = []
        try:
            run.is_begun = True
            run.is_finished = run.next_batch >= end
            following = self._following(feed, run, end)
            while not run.is_finished and self._take(following, run, ready):
                yield ready.pop()
                run.is_finished |= self.drop_last and run.next_batch >= end
        finally:
            feed.stop(run)

    def _take(self, following: _Following, run: Run, ready: list[Any]) -> bool:
        """Puts the next batch into `ready`; False at the end."""
        found = following()
        if found is None:
            return False
        batch, number = found
        ready.append(batch if self.transform is None else self.transform(batch))
        run.next_batch = number + 1
        return True

    def _following(self, feed: Feed, run: Run, end: int) -> _Following:
        if self._device is None:
            return functools.partial(self._next, feed, run)
        if self._copies is None:
            self._copies = DeviceCopies(self._device, feed.in_flight)
        return DevicePass(self._copies, feed, run, self.layout, end).next

    def _next(self, feed: Feed, run: Run) -> Optional[tuple[Any, int]]:
        """The next batch and its number; None at the end."""
        arrived = feed.next(run)
        if arrived is None:
            return None
        return (made(self.layout, Arrays(arrived.message, arrived.lent, self._own(arrived)),
                     feed.welcome()), arrived.message.number)

    def _own(self, arrived: Arrived) -> Optional[Callable[[Any], Any]]:
        if self.pin_memory and torch().cuda.is_available():
            return lambda values: values.pin_memory()
        return (lambda values: values.clone()) if arrived.is_to_be_copied else None

    def _check_fingerprint(self, welcome: feeds_pb2.FeedWelcome) -> None:
        wanted = self._wanted_fingerprint
        if wanted and wanted != welcome.fingerprint:
            raise ValueError(f"the state is of other contents of {self._spec.data.dataset}: their "
                             f"fingerprint was {wanted}, and is {welcome.fingerprint}")


@contextlib.contextmanager
def _closing_on_error(origin: Origin) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if origin.daemon is not None:
            origin.daemon.close()
        raise


def _end(feed: Feed, daemon: Optional[PrivateDaemon]) -> None:
    """Ends a loader's use of a feed and of a private daemon."""
    feed.leave()
    if daemon is not None:
        feed.await_end()
        daemon.close()


def _digest(options: Mapping[str, str]) -> str:
    text = "\n".join(f"{name}={value}" for name, value in sorted(options.items()))
    return hashlib.sha256(text.encode()).hexdigest()
