"""A dataset of the daemon as a remote backend of PyTorch Geometric."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

from hearth.client import Client
from hearth.errors import invalid
from hearth.options.specs import feed_spec
from hearth.packages import geometric, torch
from hearth.torch.arguments import NumNeighbors, options_of
from hearth.torch.batches import Arrays, made
from hearth.torch.node_types import is_typed, names_of
from hearth.torch.session import Feed, Run, feed_of
from hearth.torch.trainers import Trainers
from hearth.v1 import feeds_pb2

if TYPE_CHECKING:
    from hearth.pyg.stores import Features, Graph, Sampler


def remote(client: Client, dataset: str, *, num_neighbors: NumNeighbors,
           batch_size: Optional[int] = None, **options: Any
           ) -> tuple[tuple[Features, Graph], Sampler]:
    """The dataset for loaders of PyG, which choose the seeds: the daemon samples them and sends
    the rows.

        stores, sampler = hearth.pyg.remote(client, "papers", num_neighbors=[10, 10])
        loader = NodeLoader(stores, sampler, input_nodes=nodes, batch_size=1024, shuffle=True)

    `num_neighbors` and `options` are those of hearth.torch.NeighborLoader; `batch_size` (1,024)
    is the most seeds of a batch. The strategy is memory, mmap or gnndrive. Seeds of a batch
    differ; in graphs of several types they are of the dataset's target, and input_nodes is a
    pair of that name and ids. The i-th batch that is asked for depends on its seeds, i and
    data_seed alone.

    A batch has x, y, of the seeds, n_id, edge_index and the counts of PyG's. The stores know the
    sizes of the graph, and hold nothing else: x and y come with the sample. Loaders have no
    workers (num_workers=0), and sample nodes, not edges. `sampler.close()` ends the daemon's job,
    which ends with the sampler and the stores otherwise; tensors stay valid.
    """
    geometric()
    if not isinstance(client, Client):
        raise TypeError(f"{type(client).__name__} is not a hearth.Client")
    chosen = options_of(num_neighbors, "pyg", batch_size, None, options)
    chosen["dataset"] = dataset
    backend = Backend(feed_of(client, chosen, feed_spec(chosen), Trainers(1, 0), "train", None))
    from hearth.pyg.stores import Features, Graph, Sampler
    return (Features(backend), Graph(backend)), Sampler(backend)


class NodeType(NamedTuple):
    """A type of the nodes; None is the name of the only one."""

    name: Optional[str]
    feature_dim: int
    num_nodes: int
    first: int
    """Its first node, by the ids over all types."""


class Backend:
    """What the stores and the sampler share: the feed, and the samples that are in use.
    Thread-safe."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._lock = threading.Lock()
        self._run: Optional[Run] = None
        self._asked = 0
        # Tensors of nodes, by their ids as objects, and what was sampled with them.
        self._samples: dict[int, tuple[weakref.ref[Any], Optional[str], dict[str, Any]]] = {}
        self.close = weakref.finalize(self, feed.leave)

    @property
    def is_typed(self) -> bool:
        """Whether nodes or edges are of several types."""
        return is_typed(self._welcome())

    @property
    def node_types(self) -> list[NodeType]:
        """The types of the nodes, in order."""
        welcome, first, types = self._welcome(), 0, []
        for name, one in zip(names_of(welcome), welcome.node_types):
            types.append(NodeType(name if is_typed(welcome) else None, one.feature_dim,
                                  one.num_nodes, first))
            first += one.num_nodes
        return types

    @property
    def edge_types(self) -> list[Optional[tuple[str, ...]]]:
        """The types of the edges, in order; None is the only one."""
        return [tuple(name.split(":")) if self.is_typed else None
                for name in self._welcome().edge_types]

    @property
    def target(self) -> NodeType:
        """The type of the seeds."""
        types = self.node_types
        return next((one for one in types if one.name == self._welcome().target), types[0])

    @property
    def label_shape(self) -> Optional[tuple[int, ...]]:
        """The shape of a node's label; None without labels."""
        welcome = self._welcome()
        if not welcome.labels:
            return None
        return () if welcome.labels == "classes" else (welcome.label_width,)

    def sample(self, nodes: Sequence[int]) -> dict[str, Any]:
        """The batch of these seeds, by their ids over all types. Raises HearthError."""
        with self._lock:
            if self._run is None or self._run.is_over:
                self._run = Run(feeds_pb2.FEED_REQUESTS, feeds_pb2.FEED_GRAPH, epoch=0,
                                next_batch=self._asked, requests=deque())
            run = self._run
            self._asked += 1
            try:
                self._feed.ask(run, nodes)
                arrived = self._feed.next(run)
                assert arrived is not None and run.requests is not None
                run.requests.popleft()
                run.next_batch = self._asked
            except BaseException:
                # What was asked for is not what is asked for next.
                self._feed.stop(run)
                raise
            own = (lambda values: values.clone()) if arrived.is_to_be_copied else None
            batch: dict[str, Any] = made("tensors", Arrays(arrived.message, arrived.lent, own),
                                         self._welcome())
            return batch

    def keep(self, nodes: Any, group: Optional[str], values: dict[str, Any]) -> None:
        """Keeps what was sampled with the nodes of a type, for as long as their tensor lives."""
        key = id(nodes)

        def forget(_: Any) -> None:
            self._samples.pop(key, None)

        self._samples[key] = weakref.ref(nodes, forget), group, values

    def kept(self, nodes: Any, group: Optional[str]) -> Optional[dict[str, Any]]:
        """What was sampled with these nodes."""
        found = self._samples.get(id(nodes))
        return found[2] if found is not None and found[1] == group else None

    def seeds(self, nodes: Any, input_type: Optional[str]) -> list[int]:
        """Ids of seeds, over all types, of those within their type. Raises InvalidRequest."""
        target = self.target
        if input_type != target.name:
            raise invalid("input_nodes", f"are of type {input_type!r}, not of {target.name!r}, "
                          "the type of the dataset's seeds" if self.is_typed else
                          "have a type, and the dataset's nodes have none")
        own = torch().as_tensor(nodes).to(torch().int64)
        negative = (own < 0).nonzero().flatten().tolist()
        if negative:
            raise invalid("input_nodes", f"have the id {int(own[negative[0]])} at position "
                          f"{negative[0]} of a batch")
        found: list[int] = (own + target.first).tolist()
        return found

    def _welcome(self) -> feeds_pb2.FeedWelcome:
        if not self.close.alive:
            raise RuntimeError("the sampler is closed")
        return self._feed.welcome()
