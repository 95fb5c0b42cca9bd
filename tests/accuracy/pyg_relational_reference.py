"""Trains reference models of graphs with several types with PyG; writes one JSON file.

    pyg_relational_reference.py --data DIR --output FILE

DIR is the GraphBolt folder that `hearth.datasets.wordnet --heterogeneous
--without-words` makes. Training and evaluation sample with the same fan-outs.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Iterator

import numpy as np
import torch
import torch_geometric
from torch import Tensor

from graphbolt_folder import GraphBoltFolder, read_graphbolt_folder
from pyg_relational_models import MODELS, RelationalConfig, new_model
from pyg_trimmed import Layer, layers_of, scores
from typed_neighbor_sampler import TypedNeighborSampler


class Batches:
    """Sampled mini-batches of a folder: features, layers and labels of the seeds."""

    def __init__(self, data: GraphBoltFolder, fanouts: list[int], batch_size: int, seed: int):
        self._data = data
        self._fanouts = fanouts
        self._batch_size = batch_size
        self._sampler = TypedNeighborSampler(data.edges, data.num_nodes, seed)

    def of(self, nodes: np.ndarray) -> Iterator[tuple[dict[str, Tensor], list[Layer], Tensor]]:
        for start in range(0, len(nodes), self._batch_size):
            seeds = nodes[start : start + self._batch_size]
            subgraph = self._sampler.sample(self._data.target, seeds, self._fanouts)
            x = {kind: torch.from_numpy(self._data.features[kind][rows]).float()
                 for kind, rows in subgraph.nodes.items()}
            yield x, layers_of(subgraph), torch.from_numpy(self._data.labels[seeds])


def train_epoch(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: Batches,
                nodes: np.ndarray) -> float:
    """Returns the mean loss over the nodes."""
    model.train()
    total = 0.0
    for x, layers, labels in batches.of(nodes):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(scores(model, x, layers), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(nodes)


@torch.no_grad()
def accuracy(model: torch.nn.Module, batches: Batches, nodes: np.ndarray) -> float:
    model.eval()
    correct = 0
    for x, layers, labels in batches.of(nodes):
        correct += int((scores(model, x, layers).argmax(dim=1) == labels).sum())
    return correct / len(nodes)


def model_config(data: GraphBoltFolder, name: str, options: argparse.Namespace) -> RelationalConfig:
    nodes = [{"name": kind, "in_channels": width} for kind, width in data.widths.items()]
    return RelationalConfig(
        name, max(data.widths.values()), options.hidden, data.num_classes, len(options.fanouts),
        nodes, [list(key) for key in data.edges], data.target,
        heads=options.heads if name == "rgat" else 0, dropout=options.dropout)


def run_seed(data: GraphBoltFolder, name: str, options: argparse.Namespace,
             seed: int) -> dict[str, object]:
    """Trains one model; the seed sets weights, dropout, order and samples."""
    start = time.monotonic()
    torch.manual_seed(seed)
    order = np.random.default_rng(seed)
    model = new_model(model_config(data, name, options))
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    batches = Batches(data, options.fanouts, options.batch_size, seed)
    losses = [
        train_epoch(model, optimizer, batches, order.permutation(data.train))
        for _ in range(options.epochs)
    ]
    return {
        "seed": seed,
        "test_accuracy": round(accuracy(model, batches, data.test), 6),
        "train_loss": [round(loss, 6) for loss in losses],
        "seconds": round(time.monotonic() - start, 1),
    }


def settings(data: GraphBoltFolder, options: argparse.Namespace) -> dict[str, object]:
    return {
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "node_types": data.widths,
        "num_edge_types": len(data.edges),
        "target": data.target,
        "num_classes": data.num_classes,
        "num_train": len(data.train),
        "num_test": len(data.test),
        "fanouts": options.fanouts,
        "hidden": options.hidden,
        "heads": options.heads,
        "num_bases": 0,
        "batch_size": options.batch_size,
        "epochs": options.epochs,
        "optimizer": "adam",
        "lr": options.lr,
        "dropout": options.dropout,
    }


def _integers(text: str) -> list[int]:
    return [int(item) for item in text.split(",")]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="GraphBolt folder")
    parser.add_argument("--output", type=Path, required=True, help="JSON file")
    parser.add_argument("--models", type=lambda text: text.split(","),
                        default=["rsage", "rgcn", "rgat"], help=f"of {', '.join(MODELS)}")
    parser.add_argument("--seeds", type=_integers, default=[1, 2, 3])
    parser.add_argument("--fanouts", type=_integers, default=[5, 5],
                        help="of every edge type, from the seeds outward; one layer each")
    parser.add_argument("--hidden", type=int, default=64, help="width, of all heads together")
    parser.add_argument("--heads", type=int, default=2, help="of rgat")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    data = read_graphbolt_folder(options.data)
    results: dict[str, object] = {"settings": settings(data, options)}
    for name in options.models:
        runs: list[dict[str, object]] = []
        results[name] = runs
        for seed in options.seeds:
            runs.append(run_seed(data, name, options, seed))
            print(name, json.dumps(runs[-1]), flush=True)
            options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
