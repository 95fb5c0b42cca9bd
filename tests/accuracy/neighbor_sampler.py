"""Uniform neighbor sampling without replacement, as PyG's NeighborLoader does it.

NeighborLoader needs pyg-lib or torch-sparse, which are compiled; this is the
same sampling in numpy. A subgraph is directed: the in-edges sampled in hop k
end in the nodes that hop k-1 reached first (in hop 1: in the seeds), so each
node's in-edges are sampled once, with the fan-out of the hop after it was
reached. Nodes are numbered in the order in which they are reached, seeds first.
A node with no more in-edges than the fan-out keeps them all.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np


class Subgraph(NamedTuple):
    nodes: np.ndarray  # int64 (n): node of each row; the seeds come first
    # int64 (2, e): sources, destinations, as rows of `nodes`; destinations ascend.
    edge_index: np.ndarray
    nodes_of_hops: list[int]  # how many nodes each hop reaches first, from the seeds on


class InEdges:
    """The in-edges of each node, for samples of them."""

    def __init__(self, edge_index: np.ndarray, num_nodes: int):
        """`num_nodes`: of those that edges may end in."""
        order = np.argsort(edge_index[1], kind="stable")
        self._sources = edge_index[0][order]
        degrees = np.bincount(edge_index[1], minlength=num_nodes)
        self._begin = np.concatenate([[0], np.cumsum(degrees)])

    def sample(self, frontier: np.ndarray, fanout: int,
               random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """In-edges of the frontier, as nodes: those with the smallest random keys."""
        begin = self._begin[frontier]
        degrees = self._begin[frontier + 1] - begin
        owner = np.repeat(np.arange(len(frontier)), degrees)
        first = np.cumsum(degrees) - degrees
        rank = np.arange(len(owner)) - first[owner]
        edge = begin[owner] + rank
        if fanout >= 0:
            # Sorting by owner + key shuffles the edges within each owner, so that
            # the first `fanout` places of an owner hold a uniform sample.
            shuffled = np.argsort(owner + random.random(len(owner)))
            edge, owner = edge[shuffled][rank < fanout], owner[rank < fanout]
        return self._sources[edge], frontier[owner]


class NeighborSampler:
    """Samples from one graph. Not thread-safe: it keeps a scratch array of N rows."""

    def __init__(self, edge_index: np.ndarray, num_nodes: int, seed: int):
        self._in_edges = InEdges(edge_index, num_nodes)
        self._row_of = np.full(num_nodes, -1, dtype=np.int64)
        self._random = np.random.default_rng(seed)

    def sample(self, seeds: np.ndarray, fanouts: Sequence[int]) -> Subgraph:
        """Samples len(fanouts) hops; a fan-out of -1 keeps all. `seeds` are distinct."""
        reached = [np.asarray(seeds, dtype=np.int64)]
        self._row_of[seeds] = np.arange(len(seeds))
        count = len(seeds)
        edges = []
        for fanout in fanouts:
            sources, destinations = self._in_edges.sample(reached[-1], fanout, self._random)
            new = in_order_of_appearance(sources[self._row_of[sources] < 0])
            self._row_of[new] = np.arange(count, count + len(new))
            count += len(new)
            edges.append(np.stack([self._row_of[sources], self._row_of[destinations]]))
            reached.append(new)
        nodes = np.concatenate(reached)
        self._row_of[nodes] = -1
        return Subgraph(nodes, np.concatenate(edges, axis=1), [len(hop) for hop in reached])


def in_order_of_appearance(nodes: np.ndarray) -> np.ndarray:
    _, first = np.unique(nodes, return_index=True)
    return nodes[np.sort(first)]
