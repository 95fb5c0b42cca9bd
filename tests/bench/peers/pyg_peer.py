"""PyTorch Geometric: its loader over memory-mapped features (what papers call PyG+)."""

from __future__ import annotations

import warnings
from typing import Any, Iterator, Optional

import torch
import torch_geometric
from torch.utils.data import get_worker_info
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import SAGEConv
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from csc_sampler import CscSampler
from peer import LEARNING_RATE, Batch, Graph, Reporter, open_graph, parse_arguments


class NumpySampler(BaseSampler):
    """In the place of PyG's NeighborSampler, in each worker its own."""

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
                             metadata=(index.input_id, index.time))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        raise TypeError("only nodes are sampled here")


class Sage(torch.nn.Module):
    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            SAGEConv(before, after) for before, after in zip(widths, widths[1:]))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for conv in self.convs[:-1]:
            x = conv(x, edges).relu()
        return self.convs[-1](x, edges)


def _data(graph: Graph) -> Data:
    """The sampler knows the edges; the loader only wants to see that there are some."""
    return Data(x=torch.from_numpy(graph.features), y=torch.from_numpy(graph.labels),
                edge_index=torch.empty((2, 0), dtype=torch.int64))


def _batches(loader: NodeLoader) -> Iterator[Batch]:
    for batch in loader:
        yield Batch(batch.num_nodes, batch)


def main() -> None:
    options = parse_arguments()
    graph = open_graph(options.dataset, options.advice == "random")
    workers = options.workers
    loader = NodeLoader(_data(graph), NumpySampler(graph, options.fanouts),
                        torch.from_numpy(graph.train), batch_size=options.batch_size,
                        shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    hidden = [options.hidden] * (len(options.fanouts) - 1)
    model = Sage([graph.features.shape[1], *hidden, graph.num_classes])
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def train(batch: Data) -> None:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
        optimizer.step()

    reporter = Reporter(graph.row_bytes)
    for _ in range(options.epochs):
        reporter.epoch(_batches(loader), train if options.model == "sage" else None)
    reporter.write(options.report, {"torch": torch.__version__,
                                    "torch_geometric": torch_geometric.__version__})


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
