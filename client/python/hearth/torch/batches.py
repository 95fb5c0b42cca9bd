"""Batches as scripts have them: tensors over the arrays of a batch, in one of the layouts."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Callable, NamedTuple, Optional, Sequence

from hearth.packages import geometric, torch
from hearth.torch.mini_batches import mini_batch
from hearth.torch.node_types import is_typed, names_of
from hearth.torch.slots import Loan
from hearth.v1 import feeds_pb2

Lent = dict[int, tuple[memoryview, Loan]]
LAYOUTS = ("pyg", "layers", "graphbolt", "tensors")
_DTYPES = {feeds_pb2.FeedArray.FLOAT32: "float32", feeds_pb2.FeedArray.INT64: "int64"}


class Layer(NamedTuple):
    """The bipartite graph of one layer."""

    edge_index: Any
    """Positions of sources and destinations, int64 of shape [2, E]."""
    size: tuple[int, int]
    """Numbers of sources and destinations; the destinations are the first sources."""
    edge_weight: Any = None
    """float32 of shape [E]; None if edges have no weights."""
    edge_type: Any = None
    """int64 of shape [E], in graphs of several edge types; else None."""


@dataclass
class LayerBatch:
    """A batch of the layout "layers". A layer of a model is conv((x, x[:size[1]]), edge_index)
    with the next of `layers`."""

    x: Any
    n_id: Any
    in_degrees: Any
    y: Any
    """Labels of the seeds, which are the first nodes, or of all nodes; None without labels."""
    input_id: Any
    """Places of the seeds in the split, or in the nodes in its place."""
    node_type: Any
    """Types of the nodes, in graphs of several; else None."""
    layers: list[Layer]
    batch_size: int
    loss_scale: float
    """Factor of the mean loss, where trainers share each batch; else 1."""

    def to(self, device: Any, non_blocking: bool = False) -> LayerBatch:
        """The batch on a device."""
        def moved(value: Any) -> Any:
            return (value.to(device, non_blocking=non_blocking) if torch().is_tensor(value)
                    else value)

        own = {one.name: moved(getattr(self, one.name)) for one in fields(self)}
        own["layers"] = [Layer(*map(moved, layer)) for layer in self.layers]
        return replace(self, **own)


class Arrays:
    """The arrays of a batch, in the slots that are lent to it. Tensors are made over the slots,
    or with `own`, which copies a tensor, are independent of them."""

    def __init__(self, message: feeds_pb2.FeedBatch, lent: Lent,
                 own: Optional[Callable[[Any], Any]]) -> None:
        self.message = message
        self._lent = lent
        self._own = own
        self._arrays = {
            (array.name, array.of_type if array.HasField("of_type") else None,
             array.layer if array.HasField("layer") else None): array
            for array in message.arrays}

    def tensor(self, name: str, of_type: Optional[int] = None,
               layer: Optional[int] = None) -> Any:
        """An array for the script; None if the batch has no such array."""
        values = self.inner(name, of_type, layer)
        if values is None or self._own is not None:
            return values if values is None else self.owned(values)
        _, loan = self._lent[self._arrays[name, of_type, layer].slot]
        loan.is_seen = True
        return values

    def rows(self, of_type: int, width: int) -> Any:
        """The features of the nodes of a type: a copy, unless there is only one type."""
        rows = self.inner("rows", of_type)
        if rows is None:
            return self.tensor("x")
        return self.kept(self.inner("x")[:, :width].index_select(0, rows))

    def of_seeds(self) -> dict[str, Any]:
        """What belongs to the seeds, whatever their type: labels, None without any, and places."""
        return {name: next((self.tensor(*key) for key in self._arrays if key[0] == name), None)
                for name in ("y", "input_id")}

    def kept(self, values: Any) -> Any:
        """A new tensor, made of others, as one for the script."""
        return values if self._own is None else self.owned(values)

    def owned(self, values: Any) -> Any:
        assert self._own is not None
        return self._own(values)

    def inner(self, name: str, of_type: Optional[int] = None,
              layer: Optional[int] = None) -> Any:
        """An array that is not handed out."""
        array = self._arrays.get((name, of_type, layer))
        if array is None:
            return None
        dtype, shape = getattr(torch(), _DTYPES[array.type]), tuple(array.shape)
        count = math.prod(shape)
        if not count:
            return torch().empty(shape, dtype=dtype)
        return self._flat(array, dtype, count).view(shape)

    def _flat(self, array: feeds_pb2.FeedArray, dtype: Any, count: int) -> Any:
        view, _ = self._lent[array.slot]
        return torch().frombuffer(view, dtype=dtype, count=count, offset=array.offset)


def made(layout: str, arrays: Arrays, welcome: feeds_pb2.FeedWelcome) -> Any:
    """The batch in a layout."""
    if arrays.message.layers:
        tensors = _layers(arrays)
        if layout == "graphbolt":
            return mini_batch(tensors, welcome, arrays.kept)
        return tensors if layout == "tensors" else LayerBatch(
            **{**tensors, "layers": [Layer(**layer) for layer in tensors["layers"]]})
    if is_typed(welcome):
        tensors = _typed_graph(arrays, welcome)
        return tensors if layout == "tensors" else _hetero_data(
            tensors, welcome.target or next(iter(tensors["x"])))
    tensors = _graph(arrays)
    return tensors if layout == "tensors" else geometric().data.Data(
        **{name: value for name, value in tensors.items() if value is not None})


def _graph(arrays: Arrays) -> dict[str, Any]:
    message = arrays.message
    return {**{name: arrays.tensor(name) for name in ("x", "edge_index", "n_id", "in_degrees")},
            **arrays.of_seeds(), "batch_size": message.num_seeds,
            "loss_scale": message.loss_scale,
            "num_sampled_nodes": _counts(message.num_sampled_nodes, 1)[0],
            "num_sampled_edges": _counts(message.num_sampled_edges, 1)[0]}


def _typed_graph(arrays: Arrays, welcome: feeds_pb2.FeedWelcome) -> dict[str, Any]:
    """Values of a batch; those of nodes and edges are dicts by type."""
    message = arrays.message
    edge_types = [tuple(name.split(":")) for name in welcome.edge_types]
    types = [(name, node.feature_dim)
             for name, node in zip(names_of(welcome), welcome.node_types)]

    def of_nodes(name: str) -> dict[str, Any]:
        alone = arrays.tensor(name) if len(types) == 1 else None
        return {kind: arrays.tensor(name, i) if alone is None else alone
                for i, (kind, _) in enumerate(types)}

    def by_type(kinds: Sequence[Any], counts: Sequence[feeds_pb2.FeedCounts]) -> dict[Any, Any]:
        return dict(zip(kinds, _counts(counts, len(kinds))))

    return {"x": {kind: arrays.rows(i, width) for i, (kind, width) in enumerate(types)},
            "edge_index": {kind: arrays.tensor("edge_index", i)
                           for i, kind in enumerate(edge_types)},
            **arrays.of_seeds(), "n_id": of_nodes("n_id"),
            "in_degrees": of_nodes("in_degrees"), "batch_size": message.num_seeds,
            "loss_scale": message.loss_scale,
            "num_sampled_nodes": by_type([kind for kind, _ in types], message.num_sampled_nodes),
            "num_sampled_edges": by_type(edge_types, message.num_sampled_edges)}


def _hetero_data(tensors: dict[str, Any], target: str) -> Any:
    data = geometric().data.HeteroData(loss_scale=tensors.pop("loss_scale"))
    for name, value in tensors.items():
        # What belongs to seeds is the target's.
        for kind, one in (value if isinstance(value, dict) else {target: value}).items():
            if one is not None:
                data[kind][name] = one
    return data


def _layers(arrays: Arrays) -> dict[str, Any]:
    layers = [{"edge_index": arrays.tensor("edge_index", layer=i),
               "size": (layer.num_sources, layer.num_destinations),
               "edge_weight": arrays.tensor("edge_weight", layer=i),
               "edge_type": arrays.tensor("edge_type", layer=i)}
              for i, layer in enumerate(arrays.message.layers)]
    return {**{name: arrays.tensor(name) for name in ("x", "n_id", "in_degrees", "node_type")},
            **arrays.of_seeds(), "layers": layers, "batch_size": arrays.message.num_seeds,
            "loss_scale": arrays.message.loss_scale}


def _counts(counts: Sequence[feeds_pb2.FeedCounts], types: int) -> list[list[int]]:
    """Counts of each type, hop by hop; zeros for types that the message leaves out."""
    hops = max((len(one.counts) for one in counts), default=0)
    found = [[0] * hops for _ in range(types)]
    for one in counts:
        found[one.type] = list(one.counts)
    return found
