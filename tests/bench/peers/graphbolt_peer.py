"""DGL's GraphBolt as its newest source has it, with its store of features on disk.

Its feature reads the file by io_uring, past the page cache; the cache before it, of
which GraphBolt has four kinds, is of the default one. Sampling and fetching run in
a thread of their own, which GraphBolt's `copy_to` starts. Layers are PyG's, on the
adjacencies as GraphBolt gives them: GraphBolt has none, and is of use without DGL's.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Iterator

import dgl
import dgl.graphbolt as gb
import torch

from peer import Batch, Graph, Reporter, feature_file, open_graph, parse_arguments
from training import Trainer
from trimmed_sage import Sage, adjacency_of

_KEY = ("node", None, "feat")


def open_feature(graph: Graph, folder: Path, where: str, cache_bytes: int) -> gb.Feature:
    """`where` is one of FEATURES."""
    if not where.startswith("disk"):
        return gb.TorchBasedFeature(torch.from_numpy(graph.features))
    if not torch.ops.graphbolt.detect_io_uring():
        raise SystemExit("this GraphBolt was built without io_uring, or the kernel has none")
    feature = gb.DiskBasedFeature(str(feature_file(folder)))
    return gb.cpu_cached_feature(feature, cache_bytes) if where == "disk-cached" else feature


def new_loader(graph: Graph, feature: gb.Feature, fanouts: list[int], batch_size: int,
               workers: int, device: str) -> gb.DataLoader:
    topology = gb.fused_csc_sampling_graph(torch.from_numpy(graph.indptr),
                                           torch.from_numpy(graph.indices))
    seeds = gb.ItemSet((torch.from_numpy(graph.train.astype(graph.indices.dtype)),
                        torch.from_numpy(graph.labels[graph.train])), names=("seeds", "labels"))
    pipe = gb.ItemSampler(seeds, batch_size=batch_size, shuffle=True)
    # GraphBolt lists fan-outs from the inputs inward.
    pipe = pipe.sample_neighbor(topology, fanouts[::-1])
    pipe = pipe.fetch_feature(gb.BasicFeatureStore({_KEY: feature}), node_feature_keys=["feat"])
    return gb.DataLoader(pipe.copy_to(device), num_workers=workers)


def layers_of(batch: gb.MiniBatch) -> list[torch.Tensor]:
    return [adjacency_of(layer.sampled_csc.indptr, layer.sampled_csc.indices,
                         len(layer.original_row_node_ids)) for layer in batch.sampled_subgraphs]


def _batches(loader: gb.DataLoader, trainer: Trainer) -> Iterator[Batch]:
    for batch in loader:
        yield Batch(len(batch.node_features["feat"]), batch)
    trainer.wait()


def main() -> None:
    options = parse_arguments()
    graph = open_graph(options.dataset, options.features)
    feature = open_feature(graph, options.dataset, options.features, options.cache_bytes)
    loader = new_loader(graph, feature, options.fanouts, options.batch_size, options.workers,
                        options.device)
    trainer = Trainer(Sage(graph.widths(options.hidden, len(options.fanouts))),
                      options.precision, options.device)

    def train(batch: gb.MiniBatch) -> None:
        trainer.step(batch.labels, batch.node_features["feat"], layers_of(batch))

    reporter = Reporter(graph.row_bytes)
    for _ in range(options.epochs):
        reporter.epoch(_batches(loader, trainer), train if options.model == "sage" else None)
    reporter.write(options.report, {"torch": torch.__version__, "dgl": dgl.__version__,
                                    "sampler": "GraphBolt", "layers": "of PyG, trimmed"})


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
