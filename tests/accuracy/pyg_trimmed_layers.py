"""The models of pyg_models.py on the rows that each layer needs.

A layer need not compute the rows of the nodes that were reached last: no layer
above reads them. What is left of the model's output, the rows of the seeds, is
that of `model(x, edge_index)` on the whole subgraph. SAGE, GCN and GIN sum
neighbors by a sparse product instead of a copy of a row for every edge.
"""

from __future__ import annotations

import itertools
from typing import Optional, Sequence

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from pyg_models import ATTENTION, Model


def scores(model: Model, x: Tensor, edge_index: Tensor, nodes_of_hops: Sequence[int]) -> Tensor:
    """Of the seeds. REQUIRES: destinations ascend, as neighbor_sampler.py has them."""
    weights = None
    if model.config.model == "gcn":
        edge_index, weights = _normalized(edge_index, len(x))
    reached = list(itertools.accumulate(nodes_of_hops))
    for conv, destinations in zip(model.convs, reached[-2::-1], strict=True):
        x = _layer(model, conv, x, edge_index, weights, destinations)
        if conv is not model.convs[-1]:
            x = torch.nn.functional.dropout(x.relu(), model.config.dropout, model.training)
    return x


def _layer(model: Model, conv: torch.nn.Module, x: Tensor, edge_index: Tensor,
           weights: Optional[Tensor], destinations: int) -> Tensor:
    needed = edge_index[1] < destinations
    edges = edge_index[:, needed]
    if model.config.model in ATTENTION:
        return conv((x, x[:destinations]), edges)
    if isinstance(conv, GCNConv):
        assert weights is not None
        return _sparse(edges, weights[needed], destinations, len(x)) @ conv.lin(x) + conv.bias
    adjacency = _sparse(edges, torch.ones(edges.shape[1]), destinations, len(x))
    return conv((x, x[:destinations]), adjacency)


def _normalized(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """GCN's weights, of the degrees in the whole subgraph, and its loops; destinations ascend."""
    edges, weights = gcn_norm(edge_index, None, num_nodes)
    order = torch.argsort(edges[1], stable=True)
    return edges[:, order], weights[order]


def _sparse(edges: Tensor, weights: Tensor, destinations: int, sources: int) -> Tensor:
    begins = torch.zeros(destinations + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(edges[1], minlength=destinations), 0, out=begins[1:])
    return torch.sparse_csr_tensor(begins, edges[0], weights, size=(destinations, sources),
                                   check_invariants=False)
