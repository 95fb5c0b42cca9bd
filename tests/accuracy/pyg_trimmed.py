"""The models of pyg_relational_models.py on the rows that each layer needs.

A layer need not compute the rows of the nodes that were reached last: no layer
above reads them. What is left of the model's output, the rows of the seeds, is
that of `model(x, edges)` on the whole subgraph.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

from pyg_relational_models import EdgeType, Rgcn, Rgnn
from typed_neighbor_sampler import TypedSubgraph


class Layer(NamedTuple):
    edges: dict[EdgeType, Tensor]
    destinations: dict[str, int]  # the first rows of each type, which the layer computes


def layers_of(subgraph: TypedSubgraph) -> list[Layer]:
    """One for each hop, the first layer of the model first."""
    layers = []
    for hop in reversed(range(len(subgraph.hops))):
        edges = {key: torch.from_numpy(np.concatenate(
            [earlier[key] for earlier in subgraph.hops[: hop + 1]], axis=1))
            for key in subgraph.hops[0]}
        layers.append(Layer(edges, {kind: ends[hop] for kind, ends in subgraph.reached.items()}))
    return layers


def scores(model: torch.nn.Module, x: dict[str, Tensor], layers: Sequence[Layer]) -> Tensor:
    """Of the seeds."""
    if isinstance(model, Rgcn):
        return _rgcn(model, x, layers)
    if isinstance(model, Rgnn):
        return _rgnn(model, x, layers)
    raise TypeError(f"no relational model: {type(model).__name__}")


def _rgnn(model: Rgnn, x: dict[str, Tensor], layers: Sequence[Layer]) -> Tensor:
    for conv, layer in zip(model.convs, layers, strict=True):
        ends, edges = {}, {}
        for key in conv.convs.keys():
            # A relation transforms the rows that its edges come from.
            sources, rows = layer.edges[key][0].unique(return_inverse=True)
            ends[key] = x[key[0]][sources], x[key[2]][: layer.destinations[key[2]]]
            edges[key] = torch.stack([rows, layer.edges[key][1]])
        x = {kind: _dropout(model, torch.nn.functional.leaky_relu(rows))
             for kind, rows in conv(ends, edges).items()}
    return model.lin(x[model.config.target])


def _rgcn(model: Rgcn, x: dict[str, Tensor], layers: Sequence[Layer]) -> Tensor:
    kinds = list(model.config.widths())
    if model.proj is not None:
        x = {kind: model.proj[kind](x[kind]) for kind in kinds}
    for conv, layer in zip(model.convs, layers, strict=True):
        begins = _begins({kind: len(x[kind]) for kind in kinds})
        counts = [layer.destinations[kind] for kind in kinds]
        begins_out = _begins(dict(zip(kinds, counts)))
        ends, relations = [], []
        for relation, key in enumerate(model.config.relations()):
            offsets = torch.tensor([[begins[key[0]]], [begins_out[key[2]]]])
            ends.append(layer.edges[key] + offsets)
            relations.append(torch.full((layer.edges[key].shape[1],), relation))
        rows = conv((torch.cat([x[kind] for kind in kinds]),
                     torch.cat([x[kind][:count] for kind, count in zip(kinds, counts)])),
                    torch.cat(ends, 1), torch.cat(relations))
        if conv is not model.convs[-1]:
            rows = _dropout(model, rows.relu())
        x = dict(zip(kinds, rows.split(counts)))
    return x[model.config.target]


def _begins(counts: dict[str, int]) -> dict[str, int]:
    ends = np.cumsum(list(counts.values())).tolist()
    return {kind: end - count for (kind, count), end in zip(counts.items(), ends)}


def _dropout(model: Rgnn | Rgcn, rows: Tensor) -> Tensor:
    return torch.nn.functional.dropout(rows, model.config.dropout, model.training)
