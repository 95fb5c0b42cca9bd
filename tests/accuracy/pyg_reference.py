"""Trains a reference model with PyG on a numpy folder; one JSON object per seed.

    pyg_reference.py --data DIR --model sage --seeds 1,2,3 [--trimmed] [--sampler pyg-lib]

Training and evaluation sample with the same fan-outs, and run the layers over
the whole sampled subgraph, as PyG's own examples do. With --trimmed each layer
computes what the next one reads, and no more: the same scores and gradients,
sooner. That, with pyg-lib's sampler where there is one, is what to compare times with.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

import numpy as np
import torch

from neighbor_sampler import NeighborSampler
from numpy_folder import NumpyFolder, read_numpy_folder
from pyg_lib_sampler import PygLibSampler
from pyg_models import ATTENTION, MODELS, Model, ModelConfig
from pyg_trimmed_layers import scores

SAMPLERS = {"numpy": NeighborSampler, "pyg-lib": PygLibSampler}


class Batch(NamedTuple):
    """A sampled subgraph, the seeds' rows first."""

    x: torch.Tensor
    edge_index: torch.Tensor
    nodes_of_hops: list[int]
    labels: torch.Tensor  # of the seeds


class Batches:
    """Sampled mini-batches of a folder."""

    def __init__(self, data: NumpyFolder, options: argparse.Namespace, seed: int):
        self._data = data
        self._fanouts = options.fanouts
        self._batch_size = options.batch_size
        self._sampler = SAMPLERS[options.sampler](data.edge_index, data.num_nodes, seed)

    def of(self, nodes: np.ndarray) -> Iterator[Batch]:
        for start in range(0, len(nodes), self._batch_size):
            seeds = nodes[start : start + self._batch_size]
            rows, edges, nodes_of_hops = self._sampler.sample(seeds, self._fanouts)
            yield Batch(
                torch.from_numpy(self._data.features[rows]).float(),
                torch.from_numpy(edges),
                nodes_of_hops,
                torch.from_numpy(self._data.labels[seeds]),
            )


Scores = Callable[[Model, Batch], torch.Tensor]


def scores_of_whole(model: Model, batch: Batch) -> torch.Tensor:
    """The seeds' scores, of all layers run over all of the subgraph."""
    return model(batch.x, batch.edge_index)[: len(batch.labels)]


def scores_of_trimmed(model: Model, batch: Batch) -> torch.Tensor:
    return scores(model, batch.x, batch.edge_index, batch.nodes_of_hops)


def train_epoch(model: Model, optimizer: torch.optim.Optimizer, batches: Iterator[Batch],
                compute: Scores) -> float:
    """Returns the mean loss over the seeds."""
    model.train()
    total = seeds = 0.0
    for batch in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(compute(model, batch), batch.labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch.labels)
        seeds += len(batch.labels)
    return total / seeds


@torch.no_grad()
def accuracy(model: Model, batches: Iterator[Batch], compute: Scores) -> float:
    model.eval()
    correct = seeds = 0
    for batch in batches:
        correct += int((compute(model, batch).argmax(dim=1) == batch.labels).sum())
        seeds += len(batch.labels)
    return correct / seeds


def run_seed(data: NumpyFolder, options: argparse.Namespace, seed: int) -> dict[str, object]:
    """Trains one model; the seed sets weights, dropout, order and samples."""
    start = time.monotonic()
    torch.manual_seed(seed)
    order = np.random.default_rng(seed)
    model = Model(ModelConfig(options.model, data.features.shape[1], options.hidden,
                              data.num_classes, len(options.fanouts), options.heads,
                              options.dropout))
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    batches = Batches(data, options, seed)
    compute = scores_of_trimmed if options.trimmed else scores_of_whole
    losses = [
        train_epoch(model, optimizer, batches.of(order.permutation(data.train)), compute)
        for _ in range(options.epochs)
    ]
    return {
        "model": options.model,
        "seed": seed,
        "test_accuracy": accuracy(model, batches.of(data.test), compute),
        "train_loss": losses,
        "seconds": round(time.monotonic() - start, 1),
        "fanouts": options.fanouts,
        "hidden": options.hidden,
        "heads": options.heads if options.model in ATTENTION else 1,
        "batch_size": options.batch_size,
        "lr": options.lr,
        "dropout": options.dropout,
        "trimmed": options.trimmed,
        "sampler": options.sampler,
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
    parser.add_argument("--trimmed", action="store_true",
                        help="compute the rows that each layer needs alone")
    parser.add_argument("--sampler", choices=SAMPLERS, default="numpy",
                        help="pyg-lib: PyG's compiled one, which the environment must have")
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
