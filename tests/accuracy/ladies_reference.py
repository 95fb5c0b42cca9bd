"""Trains GraphSAGE on batches drawn layer by layer (LADIES); one JSON object per seed.

    ladies_reference.py --data DIR --layer-nodes 512,512,512 --seeds 1,2,3

The layers are torch's: a weighted mean of neighbors, and the root's own product.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from layer_sampler import Layer, LayerSampler
from numpy_folder import read_numpy_folder


class WeightedSage(torch.nn.Module):
    """One product for the weighted mean of neighbors, one for the node itself."""

    def __init__(self, width_in: int, width_out: int):
        super().__init__()
        self.neighbors = torch.nn.Linear(width_in, width_out)
        self.root = torch.nn.Linear(width_in, width_out, bias=False)

    def forward(self, x: torch.Tensor, layer: Layer) -> torch.Tensor:
        mean = torch.zeros(layer.num_destinations, x.shape[1])
        mean.index_add_(0, torch.from_numpy(layer.destinations),
                        x[torch.from_numpy(layer.sources)]
                        * torch.from_numpy(layer.weights).float()[:, None])
        return self.neighbors(mean) + self.root(x[:layer.num_destinations])


class Model(torch.nn.Module):
    def __init__(self, widths: list[int], dropout: float):
        super().__init__()
        self.convs = torch.nn.ModuleList(map(WeightedSage, widths[:-1], widths[1:]))
        self.dropout = dropout

    def forward(self, x: torch.Tensor, layers: list[Layer]) -> torch.Tensor:
        for conv, layer in zip(self.convs[:-1], layers):
            x = torch.nn.functional.dropout(conv(x, layer).relu(), self.dropout, self.training)
        return self.convs[-1](x, layers[-1])


def run_seed(data, options: argparse.Namespace, seed: int) -> dict[str, object]:
    torch.manual_seed(seed)
    order = np.random.default_rng(seed)
    sampler = LayerSampler(data.edge_index, data.num_nodes, seed)
    hidden = [options.hidden] * (len(options.layer_nodes) - 1)
    model = Model([data.features.shape[1], *hidden, data.num_classes], options.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)

    def batches(nodes):
        for start in range(0, len(nodes), options.batch_size):
            seeds = nodes[start : start + options.batch_size]
            rows, layers = sampler.sample(seeds, options.layer_nodes)
            x = torch.from_numpy(data.features[rows]).float()
            yield model(x, layers), torch.from_numpy(data.labels[seeds])

    for _ in range(options.epochs):
        model.train()
        for logits, labels in batches(order.permutation(data.train)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, labels).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        correct = sum(int((logits.argmax(dim=1) == labels).sum())
                      for logits, labels in batches(data.test))
    return {"seed": seed, "test_accuracy": correct / len(data.test),
            "layer_nodes": options.layer_nodes}


def _integers(text: str) -> list[int]:
    return [int(item) for item in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="numpy folder")
    parser.add_argument("--seeds", type=_integers, default=[1, 2, 3])
    parser.add_argument("--layer-nodes", type=_integers, default=[512, 512, 512],
                        help="from the seeds outward; one layer each")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--dropout", type=float, default=0.2)
    options = parser.parse_args()
    data = read_numpy_folder(options.data)
    for seed in options.seeds:
        print(json.dumps(run_seed(data, options, seed)), flush=True)


if __name__ == "__main__":
    main()
