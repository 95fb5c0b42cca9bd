"""Layer-wise importance sampling (LADIES, Zou et al., NeurIPS 2019, section 4) in numpy.

The nodes of a layer are drawn together, without replacement, out of all in-neighbors of the layer
before: u with a probability in proportion to q(u), the sum of in_degree(v)^-2 over its edges to
nodes v of that layer. Its edges weigh 1 / q(u), normalized to 1 for each v. Where there are no more
in-neighbors than nodes to draw, all are kept, with equal weights.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np


class Layer(NamedTuple):
    """Edges from rows of the layer below to rows of this one, which are its first rows."""

    sources: np.ndarray  # int64 (e)
    destinations: np.ndarray  # int64 (e)
    weights: np.ndarray  # float64 (e), of each destination of sum 1
    num_destinations: int


class LayerSampler:
    """Samples from one graph."""

    def __init__(self, edge_index: np.ndarray, num_nodes: int, seed: int):
        order = np.argsort(edge_index[1], kind="stable")
        self._sources = edge_index[0][order]
        self._begin = np.concatenate([[0], np.cumsum(np.bincount(edge_index[1],
                                                                 minlength=num_nodes))])
        self._random = np.random.default_rng(seed)

    def sample(self, seeds: np.ndarray,
               layer_nodes: Sequence[int]) -> tuple[np.ndarray, list[Layer]]:
        """The nodes of the lowest layer, seeds first, and the layers from there upwards."""
        nodes = np.asarray(seeds, dtype=np.int64)
        layers = []
        for count in layer_nodes:
            nodes, layer = self._draw(nodes, count)
            layers.insert(0, layer)
        return nodes, layers

    def _draw(self, nodes: np.ndarray, count: int) -> tuple[np.ndarray, Layer]:
        begin, end = self._begin[nodes], self._begin[nodes + 1]
        degrees = end - begin
        owner = np.repeat(np.arange(len(nodes)), degrees)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        sources = self._sources[begin[owner] + place]
        candidates, candidate = np.unique(sources, return_inverse=True)
        importance = np.bincount(candidate, weights=1.0 / degrees[owner].astype(float) ** 2,
                                 minlength=len(candidates))
        parts = np.ones(len(candidates))
        drawn = np.ones(len(candidates), dtype=bool)
        if len(candidates) > count:
            chosen = self._random.choice(len(candidates), count, replace=False,
                                         p=importance / importance.sum())
            drawn = np.isin(np.arange(len(candidates)), chosen)
            parts = 1 / importance
        kept = drawn[candidate]
        new = np.setdiff1d(candidates[drawn], nodes)
        below = np.concatenate([nodes, new])
        by_node = np.argsort(below)
        rows = by_node[np.searchsorted(below[by_node], sources[kept])]
        sums = np.bincount(owner[kept], weights=parts[candidate][kept], minlength=len(nodes))
        weights = parts[candidate][kept] / sums[owner[kept]]
        return below, Layer(rows, owner[kept], weights, len(nodes))
