"""GraphSAGE of PyG's layers in the fastest form that PyG has for a processor.

Each layer computes the rows that the next one reads and no others: less than
PyG's `trim_to_layer`, with which the first layer computes a row of every node.
Neighbors are summed by a sparse product (`torch.sparse.mm`), for which PyG takes an
adjacency as a sparse tensor; an `edge_index` makes a copy of a row for every edge.
"""

from __future__ import annotations

import itertools
from typing import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from training import Trainer


class Sage(torch.nn.Module):
    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            SAGEConv(before, after) for before, after in zip(widths, widths[1:]))

    def forward(self, x: Tensor, adjacencies: Sequence[Tensor]) -> Tensor:
        """Scores of the seeds. REQUIRES: an adjacency for each layer, the first layer's first."""
        for conv, adjacency in zip(self.convs, adjacencies, strict=True):
            x = conv((x, x[: adjacency.size(0)]), adjacency)
            if conv is not self.convs[-1]:
                x = x.relu().float()  # A sparse product is of float32, with autocast too.
        return x


def adjacency_of(indptr: Tensor, sources: Tensor, num_sources: int) -> Tensor:
    """Sparse, of as many rows as destinations; the first sources are the destinations."""
    ones = torch.ones(len(sources), device=sources.device)
    return torch.sparse_csr_tensor(indptr, sources.to(indptr.dtype), ones,
                                   size=(len(indptr) - 1, num_sources), check_invariants=False)


def step(trainer: Trainer, batch: Data) -> None:
    """One on a batch of PyG's NeighborLoader, or of one in its place."""
    layers = trim(*batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    trainer.step(batch.y[: batch.batch_size], batch.x, layers)


def trim(sources: Tensor, destinations: Tensor, nodes_of_hops: Sequence[int],
         edges_of_hops: Sequence[int]) -> list[Tensor]:
    """The adjacency of each layer, the first layer's first, of edges as PyG's samplers give them.

    REQUIRES: edges in the order of their destinations, and nodes numbered in the
    order of the hops. `nodes_of_hops` begins with the seeds.
    """
    nodes = list(itertools.accumulate(nodes_of_hops))
    edges = list(itertools.accumulate(edges_of_hops))
    layers = []
    for hop in reversed(range(len(edges))):
        indptr = torch.zeros(nodes[hop] + 1, dtype=torch.int64, device=sources.device)
        degrees = torch.bincount(destinations[: edges[hop]], minlength=nodes[hop])
        torch.cumsum(degrees, 0, out=indptr[1:])
        layers.append(adjacency_of(indptr, sources[: edges[hop]], nodes[hop + 1]))
    return layers
