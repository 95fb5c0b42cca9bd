"""The sampling of neighbor_sampler.py on a graph of several types of nodes and edges.

As PyG's NeighborLoader does it on a HeteroData: in hop k each node that hop k-1
reached first samples, for each edge type that leads to its own, up to the
fan-out of its in-edges. The nodes of each type are numbered in the order in
which they are reached; the seeds come first in theirs.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

import numpy as np

from graphbolt_folder import EdgeType
from neighbor_sampler import InEdges, in_order_of_appearance


class TypedSubgraph(NamedTuple):
    nodes: dict[str, np.ndarray]  # int64 (n): node of each row of the type
    reached: dict[str, list[int]]  # rows of the type that were reached in 0, 1, ... hops
    # Sampled edges of each hop: int64 (2, e), sources and destinations as rows of their types.
    hops: list[dict[EdgeType, np.ndarray]]


class TypedNeighborSampler:
    """Samples from one graph. Not thread-safe: it keeps scratch arrays of N rows in all."""

    def __init__(self, edges: Mapping[EdgeType, np.ndarray], num_nodes: Mapping[str, int],
                 seed: int):
        self._in_edges = {key: InEdges(pairs, num_nodes[key[2]]) for key, pairs in edges.items()}
        self._rows = {kind: _Rows(count) for kind, count in num_nodes.items()}
        self._random = np.random.default_rng(seed)

    def sample(self, target: str, seeds: np.ndarray, fanouts: Sequence[int]) -> TypedSubgraph:
        """Samples len(fanouts) hops; a fan-out of -1 keeps all. `seeds`, of the type `target`,
        are distinct."""
        self._rows[target].add(np.asarray(seeds, dtype=np.int64))
        ends = [self._counts()]
        frontiers = {kind: rows.nodes() for kind, rows in self._rows.items()}
        hops = []
        for fanout in fanouts:
            hops.append({key: self._hop(key, frontiers[key[2]], fanout)
                         for key in self._in_edges})
            frontiers = {kind: rows.nodes(ends[-1][kind]) for kind, rows in self._rows.items()}
            ends.append(self._counts())
        nodes = {kind: rows.nodes() for kind, rows in self._rows.items()}
        for rows in self._rows.values():
            rows.clear()
        return TypedSubgraph(nodes, {kind: [end[kind] for end in ends] for kind in nodes}, hops)

    def _counts(self) -> dict[str, int]:
        return {kind: rows.count for kind, rows in self._rows.items()}

    def _hop(self, key: EdgeType, frontier: np.ndarray, fanout: int) -> np.ndarray:
        sources, destinations = self._in_edges[key].sample(frontier, fanout, self._random)
        self._rows[key[0]].add(sources)
        return np.stack([self._rows[key[0]].of[sources], self._rows[key[2]].of[destinations]])


class _Rows:
    """The nodes of one type that were reached, in that order."""

    def __init__(self, num_nodes: int):
        self.of = np.full(num_nodes, -1, dtype=np.int64)
        self.count = 0
        self._parts = [np.zeros(0, dtype=np.int64)]

    def clear(self) -> None:
        self.of[self.nodes()] = -1
        self.count = 0
        self._parts = self._parts[:1]

    def nodes(self, begin: int = 0) -> np.ndarray:
        return np.concatenate(self._parts)[begin:]

    def add(self, nodes: np.ndarray) -> None:
        """Adds those that are new."""
        new = in_order_of_appearance(nodes[self.of[nodes] < 0])
        self.of[new] = np.arange(self.count, self.count + len(new))
        self._parts.append(new)
        self.count += len(new)
