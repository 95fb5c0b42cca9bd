"""Trains a reference model with PyG on a numpy folder; one JSON object per seed.

    pyg_reference.py --data DIR --model sage --seeds 1,2,3

Training and evaluation sample with the same fan-outs, and run the layers over
the whole sampled subgraph, as PyG's own examples do.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Iterator

import numpy as np
import torch

from neighbor_sampler import NeighborSampler
from numpy_folder import NumpyFolder, read_numpy_folder
from pyg_models import ATTENTION, MODELS, Model, ModelConfig


class Batches:
    """Sampled mini-batches of a folder: features, edges and labels of the seeds."""

    def __init__(self, data: NumpyFolder, fanouts: list[int], batch_size: int, seed: int):
        self._data = data
        self._fanouts = fanouts
        self._batch_size = batch_size
        self._sampler = NeighborSampler(data.edge_index, data.num_nodes, seed)

    def of(self, nodes: np.ndarray) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        for start in range(0, len(nodes), self._batch_size):
            seeds = nodes[start : start + self._batch_size]
            rows, edges = self._sampler.sample(seeds, self._fanouts)
            yield (
                torch.from_numpy(self._data.features[rows]).float(),
                torch.from_numpy(edges),
                torch.from_numpy(self._data.labels[seeds]),
            )


def train_epoch(model: Model, optimizer: torch.optim.Optimizer, batches: Batches,
                nodes: np.ndarray) -> float:
    """Returns the mean loss over the nodes."""
    model.train()
    total = 0.0
    for x, edge_index, labels in batches.of(nodes):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, edge_index)[: len(labels)], labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(nodes)


@torch.no_grad()
def accuracy(model: Model, batches: Batches, nodes: np.ndarray) -> float:
    model.eval()
    correct = 0
    for x, edge_index, labels in batches.of(nodes):
        predicted = model(x, edge_index)[: len(labels)].argmax(dim=1)
        correct += int((predicted == labels).sum())
    return correct / len(nodes)


def run_seed(data: NumpyFolder, options: argparse.Namespace, seed: int) -> dict[str, object]:
    """Trains one model; the seed sets weights, dropout, order and samples."""
    start = time.monotonic()
    torch.manual_seed(seed)
    order = np.random.default_rng(seed)
    model = Model(ModelConfig(options.model, data.features.shape[1], options.hidden,
                              data.num_classes, len(options.fanouts), options.heads,
                              options.dropout))
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    batches = Batches(data, options.fanouts, options.batch_size, seed)
    losses = [
        train_epoch(model, optimizer, batches, order.permutation(data.train))
        for _ in range(options.epochs)
    ]
    return {
        "model": options.model,
        "seed": seed,
        "test_accuracy": accuracy(model, batches, data.test),
        "train_loss": losses,
        "seconds": round(time.monotonic() - start, 1),
        "fanouts": options.fanouts,
        "hidden": options.hidden,
        "heads": options.heads if options.model in ATTENTION else 1,
        "batch_size": options.batch_size,
        "lr": options.lr,
        "dropout": options.dropout,
    }


def _integers(text: str) -> list[int]:
    return [int(item) for item in text.split(",")]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="numpy folder")
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--seeds", type=_integers, default=[1, 2, 3])
    parser.add_argument("--fanouts", type=_integers, default=[10, 10, 10],
                        help="from the seeds outward; one layer each")
    parser.add_argument("--hidden", type=int, default=256, help="width, of all heads together")
    parser.add_argument("--heads", type=int, default=4, help="of gat and gatv2")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    data = read_numpy_folder(options.data)
    for seed in options.seeds:
        print(json.dumps(run_seed(data, options, seed)), flush=True)


if __name__ == "__main__":
    main()
