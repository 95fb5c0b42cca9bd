"""PyTorch Geometric: NeighborLoader over memory-mapped features (what papers call PyG+)."""

from __future__ import annotations

import warnings
from typing import Iterator

import torch
import torch_geometric
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import SAGEConv
from torch_sparse import SparseTensor

from peer import LEARNING_RATE, Batch, Graph, Reporter, open_graph, parse_arguments


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
    nodes = len(graph.labels)
    in_neighbors = SparseTensor(rowptr=torch.from_numpy(graph.indptr),
                                col=torch.from_numpy(graph.indices.astype("int64")),
                                sparse_sizes=(nodes, nodes), is_sorted=True, trust_data=True)
    return Data(x=torch.from_numpy(graph.features), y=torch.from_numpy(graph.labels),
                adj_t=in_neighbors)


def _batches(loader: NeighborLoader) -> Iterator[Batch]:
    for batch in loader:
        yield Batch(batch.num_nodes, batch)


def main() -> None:
    options = parse_arguments()
    graph = open_graph(options.dataset, options.advice == "random")
    workers = options.workers
    loader = NeighborLoader(_data(graph), options.fanouts, torch.from_numpy(graph.train),
                            batch_size=options.batch_size, shuffle=True, num_workers=workers,
                            persistent_workers=workers > 0)
    hidden = [options.hidden] * (len(options.fanouts) - 1)
    model = Sage([graph.features.shape[1], *hidden, graph.num_classes])
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def train(batch: Data) -> None:
        optimizer.zero_grad()
        out = model(batch.x, batch.adj_t)[: batch.batch_size]
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
