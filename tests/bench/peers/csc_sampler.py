"""NeighborLoader's sampling in numpy: uniform, without replacement, each node expanded once.

PyG's own needs pyg-lib, which has no wheels on PyPI, or torch-sparse, which has
only its source there.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np


class Subgraph(NamedTuple):
    nodes: np.ndarray  # int64 [n], the seeds first, then as they are reached
    sources: np.ndarray  # int64 [e], as positions in `nodes`
    destinations: np.ndarray  # int64 [e], ascending
    nodes_of_hops: list[int]  # how many nodes each hop reaches first; begins with the seeds
    edges_of_hops: list[int]


def choose(degrees: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """[n, count]: for each degree d >= count, distinct numbers below d (Floyd's algorithm)."""
    chosen = np.full((len(degrees), count), -1, dtype=np.int64)
    for place in range(count):
        last = degrees - count + place
        drawn = random.integers(0, last + 1)
        taken = (chosen[:, :place] == drawn[:, None]).any(axis=1)
        chosen[:, place] = np.where(taken, last, drawn)
    return chosen


class CscSampler:
    """Of one process: it keeps a scratch array of N rows."""

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, seed: int) -> None:
        self._indptr = indptr
        self._indices = indices
        self._random = np.random.default_rng(seed)
        self._row_of = np.full(len(indptr) - 1, -1, dtype=np.int64)

    def sample(self, seeds: np.ndarray, fanouts: Sequence[int]) -> Subgraph:
        """REQUIRES: distinct seeds and positive fan-outs, from the seeds outward."""
        reached = [seeds]
        self._row_of[seeds] = np.arange(len(seeds))
        count = len(seeds)
        pairs = []
        for fanout in fanouts:
            neighbors, owners = self._in_edges(reached[-1], fanout)
            new = np.unique(neighbors[self._row_of[neighbors] < 0])
            self._row_of[new] = np.arange(count, count + len(new))
            count += len(new)
            reached.append(new)
            pairs.append((self._row_of[neighbors], self._row_of[owners]))
        nodes = np.concatenate(reached)
        self._row_of[nodes] = -1
        sources, destinations = map(np.concatenate, zip(*pairs))
        return Subgraph(nodes, sources, destinations, [len(hop) for hop in reached],
                        [len(pair[0]) for pair in pairs])

    def _in_edges(self, frontier: np.ndarray, fanout: int) -> tuple[np.ndarray, np.ndarray]:
        """Sampled neighbors, and the node that each belongs to, in the order of the frontier."""
        begin = self._indptr[frontier]
        degrees = self._indptr[frontier + 1] - begin
        kept = np.minimum(degrees, fanout)
        first = np.cumsum(kept) - kept
        # All edges of a node, unless it has more than the fan-out.
        edges = np.arange(kept.sum()) + np.repeat(begin - first, kept)
        many = degrees > fanout
        edges[first[many, None] + np.arange(fanout)] = (
            begin[many, None] + choose(degrees[many], fanout, self._random))
        return self._indices[edges].astype(np.int64), np.repeat(frontier, kept)
