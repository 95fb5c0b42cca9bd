"""NeighborSampler's subgraphs, drawn by pyg-lib, which PyG's NeighborLoader uses.

The package registry has no pyg-lib: an environment has it where someone put it.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np
import torch

from neighbor_sampler import Subgraph


class PygLibSampler:
    """Samples from one graph. Its draws follow torch's generator, which the caller seeds."""

    def __init__(self, edge_index: np.ndarray, num_nodes: int, _: int):
        import pyg_lib  # noqa: F401  (it defines the operator)

        order = np.argsort(edge_index[1], kind="stable")
        self._sources = torch.from_numpy(edge_index[0][order].astype(np.int64))
        degrees = np.bincount(edge_index[1], minlength=num_nodes)
        self._begin = torch.from_numpy(np.concatenate([[0], np.cumsum(degrees)]))

    def sample(self, seeds: np.ndarray, fanouts: Sequence[int]) -> Subgraph:
        """Samples len(fanouts) hops; a fan-out of -1 keeps all. `seeds` are distinct."""
        rows, columns, nodes, _, nodes_of_hops, _ = torch.ops.pyg.neighbor_sample(
            self._begin, self._sources, torch.from_numpy(np.asarray(seeds, dtype=np.int64)),
            list(fanouts), csc=True, return_edge_id=False)
        return Subgraph(nodes.numpy(), torch.stack([rows, columns]).numpy(), nodes_of_hops)
