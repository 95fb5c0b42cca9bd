"""PyTorch Geometric: its loader over features in memory, or mapped (what papers call PyG+).

The sampler is pyg-lib's, which NeighborLoader uses, where the environment has it;
else the same sampling in numpy. The layers are trimmed to the rows that are needed.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Iterator, Optional

import torch
import torch.distributed as dist
import torch_geometric
from torch.utils.data import get_worker_info
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from csc_sampler import CscSampler
from peer import Batch, Graph, Reporter, open_graph, parse_arguments
from training import Trainer
from trimmed_sage import Sage, step

try:
    import pyg_lib
except ImportError:
    pyg_lib = None


class NumpySampler(BaseSampler):
    """In the place of PyG's NeighborSampler, in each worker its own."""

    name = "numpy"

    def __init__(self, graph: Graph, fanouts: list[int]) -> None:
        self._graph = graph
        self._fanouts = fanouts
        self._sampler: Optional[CscSampler] = None

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> SamplerOutput:
        if self._sampler is None:
            worker = get_worker_info()
            self._sampler = CscSampler(self._graph.indptr, self._graph.indices,
                                       worker.seed if worker else 1)
        sampled = self._sampler.sample(index.node.numpy(), self._fanouts)
        return SamplerOutput(node=torch.from_numpy(sampled.nodes),
                             row=torch.from_numpy(sampled.sources),
                             col=torch.from_numpy(sampled.destinations), edge=None,
                             num_sampled_nodes=sampled.nodes_of_hops,
                             num_sampled_edges=sampled.edges_of_hops,
                             metadata=(index.input_id, index.time))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        raise TypeError("only nodes are sampled here")


class PygLibSampler(BaseSampler):
    """What PyG's NeighborSampler does with pyg-lib, on Hearth's arrays as they are: that one
    would first copy the edges to sort them."""

    def __init__(self, graph: Graph, fanouts: list[int]) -> None:
        self.name = f"pyg-lib {pyg_lib.__version__}"
        # All in one type, as pyg-lib wants it: that of the nodes if it can count the edges.
        small = len(graph.indices) < 2**31
        ids = graph.indices.dtype if small else "int64"
        self._indptr = torch.from_numpy(graph.indptr.astype(ids, copy=False))
        self._indices = torch.from_numpy(graph.indices.astype(ids, copy=False))
        self._fanouts = fanouts

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> SamplerOutput:
        row, col, node, _, nodes_of_hops, edges_of_hops = _neighbor_sample(
            self._indptr, self._indices, index.node.to(self._indices.dtype), self._fanouts)
        return SamplerOutput(node=node.long(), row=row.long(), col=col.long(), edge=None,
                             num_sampled_nodes=nodes_of_hops, num_sampled_edges=edges_of_hops,
                             metadata=(index.input_id, index.time))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        raise TypeError("only nodes are sampled here")


def _neighbor_sample(indptr: torch.Tensor, indices: torch.Tensor, seeds: torch.Tensor,
                     fanouts: list[int]) -> tuple[Any, ...]:
    """Uniform, without replacement; edges lead to the seeds, and are not numbered."""
    return torch.ops.pyg.neighbor_sample(indptr, indices, seeds, fanouts, csc=True,
                                         replace=False, directed=True, return_edge_id=False)


def new_sampler(graph: Graph, fanouts: list[int]) -> BaseSampler:
    return (NumpySampler if pyg_lib is None else PygLibSampler)(graph, fanouts)


def _data(graph: Graph) -> Data:
    """The sampler knows the edges; the loader only wants to see that there are some."""
    return Data(x=torch.from_numpy(graph.features), y=torch.from_numpy(graph.labels),
                edge_index=torch.empty((2, 0), dtype=torch.int64))


def _batches(loader: NodeLoader, trainer: Trainer, device: str) -> Iterator[Batch]:
    for batch in loader:
        # From pinned memory: the copy runs beside what the processor does next.
        yield Batch(batch.num_nodes, batch.to(device, non_blocking=True))
    trainer.wait()


def _share(graph: Graph, rank: int, ranks: int) -> torch.Tensor:
    """Training nodes of one of the processes that share them, equally many each: as PyG's examples
    of DistributedDataParallel have it."""
    each = len(graph.train) // ranks
    return torch.from_numpy(graph.train)[rank * each:(rank + 1) * each]


def main() -> None:
    options = parse_arguments()
    graph = open_graph(options.dataset, options.features)
    sampler = new_sampler(graph, options.fanouts)
    workers = options.workers
    if options.ranks > 1:
        dist.init_process_group("gloo", init_method=options.rendezvous, rank=options.rank,
                                world_size=options.ranks)
    loader = NodeLoader(_data(graph), sampler, _share(graph, options.rank, options.ranks),
                        batch_size=options.batch_size, shuffle=True, num_workers=workers,
                        persistent_workers=workers > 0, pin_memory=options.device != "cpu")
    trainer = Trainer(Sage(graph.widths(options.hidden, len(options.fanouts))),
                      options.precision, options.device, distributed=options.ranks > 1)

    def train(batch: Data) -> None:
        step(trainer, batch)

    reporter = Reporter(graph.row_bytes)
    for _ in range(options.epochs):
        reporter.epoch(_batches(loader, trainer, options.device),
                       train if options.model == "sage" else None)
    reporter.write(options.report, {"torch": torch.__version__,
                                    "torch_geometric": torch_geometric.__version__,
                                    "sampler": sampler.name, "layers": "trimmed"})
    if options.device != "cpu":
        # On an H100 the process did not end by itself, with eight workers and pinned memory.
        os._exit(0)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
