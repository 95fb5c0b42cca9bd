"""Batches as GraphBolt of DGL has them."""

from __future__ import annotations

import itertools
from typing import Any, Callable

from hearth.packages import graphbolt, torch
from hearth.torch.node_types import is_typed, names_of
from hearth.v1 import feeds_pb2

_FEATURE = "feat"
_WEIGHT = "weight"
# Makes a new tensor one for the script.
Kept = Callable[[Any], Any]


def mini_batch(tensors: dict[str, Any], welcome: feeds_pb2.FeedWelcome, kept: Kept) -> Any:
    """The MiniBatch of a batch of layers, whose values are `tensors`: its subgraphs are those of
    the layers, the input layer's first. Of a graph of several types, all are dicts by type."""
    values = _typed(tensors, welcome, kept) if is_typed(welcome) else _plain(tensors, kept)
    kind = graphbolt().MiniBatch
    # Newer versions have seeds alone.
    name = "seed_nodes" if "seed_nodes" in kind.__dataclass_fields__ else "seeds"
    batch = kind(**{name: values.pop("seeds")}, **values)
    batch.loss_scale = tensors["loss_scale"]
    return batch


def _plain(tensors: dict[str, Any], kept: Kept) -> dict[str, Any]:
    ids, layers = tensors["n_id"], tensors["layers"]
    return {"seeds": ids[:tensors["batch_size"]], "labels": tensors["y"], "input_nodes": ids,
            "node_features": {_FEATURE: tensors["x"]},
            "edge_features": _weights(layers, lambda layer: {_WEIGHT: layer["edge_weight"]}),
            "sampled_subgraphs": [graphbolt().SampledSubgraphImpl(
                sampled_csc=_csc(layer["edge_index"], layer["size"][1], kept),
                original_column_node_ids=ids[:layer["size"][1]],
                original_row_node_ids=ids[:layer["size"][0]]) for layer in layers]}


def _typed(tensors: dict[str, Any], welcome: feeds_pb2.FeedWelcome, kept: Kept) -> dict[str, Any]:
    edge_types, names = list(welcome.edge_types), names_of(welcome)
    firsts = itertools.accumulate((node.num_nodes for node in welcome.node_types), initial=0)
    # Where the nodes of each type are, and what each node is among those of its type.
    places = {name: (tensors["node_type"] == i).nonzero().flatten()
              for i, name in enumerate(names)}
    local = torch().empty_like(tensors["node_type"])
    for of_type in places.values():
        local[of_type] = torch().arange(len(of_type), device=local.device)
    ids = {name: kept(tensors["n_id"][places[name]] - first)
           for name, first in zip(names, firsts)}

    def among(end: int) -> dict[str, Any]:
        """Ids of the first nodes of the batch."""
        return {name: ids[name][:int((places[name] < end).sum())] for name in names}

    def subgraph(layer: dict[str, Any]) -> Any:
        columns = among(layer["size"][1])
        edges = local[layer["edge_index"]]
        chosen = {name: layer["edge_type"] == i for i, name in enumerate(edge_types)}
        return graphbolt().SampledSubgraphImpl(
            sampled_csc={name: _csc(kept(edges[:, of_type]), len(columns[name.split(":")[2]]),
                                    kept)
                         for name, of_type in chosen.items()},
            original_column_node_ids=columns, original_row_node_ids=among(layer["size"][0]))

    def weights(layer: dict[str, Any]) -> dict[tuple[str, str], Any]:
        return {(name, _WEIGHT): kept(layer["edge_weight"][layer["edge_type"] == i])
                for i, name in enumerate(edge_types)}

    layers, target = tensors["layers"], welcome.target or names[0]
    return {"seeds": {target: ids[target][:tensors["batch_size"]]},
            "labels": None if tensors["y"] is None else {target: tensors["y"]},
            "input_nodes": ids,
            "node_features": {
                (name, _FEATURE): kept(tensors["x"][:, :node.feature_dim].index_select(
                    0, places[name])) for name, node in zip(names, welcome.node_types)},
            "edge_features": _weights(layers, weights),
            "sampled_subgraphs": [subgraph(layer) for layer in layers]}


def _csc(edge_index: Any, size: int, kept: Kept) -> Any:
    """Edges by their destinations, which ascend, and are `size`."""
    sources, destinations = edge_index
    ends = torch().arange(size + 1, device=destinations.device)
    return graphbolt().CSCFormatBase(indptr=kept(torch().searchsorted(destinations, ends)),
                                     indices=sources)


def _weights(layers: list[dict[str, Any]], of_layer: Callable[[dict[str, Any]], Any]) -> Any:
    return None if layers[0]["edge_weight"] is None else [of_layer(layer) for layer in layers]
