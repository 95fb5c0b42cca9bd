"""DGL GraphBolt over memory-mapped features: the last of DGL's wheels for Linux is 2.1.0,
which has no feature store of its own for disks."""

from __future__ import annotations

import warnings
from typing import Iterator

import dgl
import dgl.graphbolt as gb
import torch
from dgl.nn import SAGEConv

from peer import Batch, Graph, Reporter, open_graph, parse_arguments
from training import Trainer

_KEY = ("node", None, "feat")


class Sage(torch.nn.Module):
    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            SAGEConv(before, after, "mean") for before, after in zip(widths, widths[1:]))

    def forward(self, x: torch.Tensor, blocks: list) -> torch.Tensor:
        for conv, block in zip(self.convs[:-1], blocks):
            x = conv(block, x).relu()
        return self.convs[-1](blocks[-1], x)


def _loader(graph: Graph, fanouts: list[int], batch_size: int, workers: int) -> gb.DataLoader:
    topology = gb.fused_csc_sampling_graph(torch.from_numpy(graph.indptr),
                                           torch.from_numpy(graph.indices.astype("int64")))
    features = gb.BasicFeatureStore(
        {_KEY: gb.TorchBasedFeature(torch.from_numpy(graph.features))})
    seeds = gb.ItemSet((torch.from_numpy(graph.train),
                        torch.from_numpy(graph.labels[graph.train])),
                       names=("seed_nodes", "labels"))
    pipe = gb.ItemSampler(seeds, batch_size=batch_size, shuffle=True)
    # GraphBolt lists fan-outs from the inputs inward.
    pipe = pipe.sample_neighbor(topology, fanouts[::-1])
    pipe = pipe.fetch_feature(features, node_feature_keys=["feat"])
    return gb.DataLoader(pipe, num_workers=workers, persistent_workers=workers > 0)


def _batches(loader: gb.DataLoader) -> Iterator[Batch]:
    for batch in loader:
        yield Batch(len(batch.node_features["feat"]), batch)


def main() -> None:
    options = parse_arguments()
    if options.device != "cpu":
        raise SystemExit("this DGL is built for processors alone")
    graph = open_graph(options.dataset, options.features)
    loader = _loader(graph, options.fanouts, options.batch_size, options.workers)
    trainer = Trainer(Sage(graph.widths(options.hidden, len(options.fanouts))),
                      options.precision)

    def train(batch: gb.MiniBatch) -> None:
        trainer.step(batch.labels, batch.node_features["feat"], batch.blocks)

    reporter = Reporter(graph.row_bytes)
    for _ in range(options.epochs):
        reporter.epoch(_batches(loader), train if options.model == "sage" else None)
    reporter.write(options.report, {"torch": torch.__version__, "dgl": dgl.__version__,
                                    "sampler": "GraphBolt", "layers": "of DGL, trimmed"})


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
