"""Writes what PyG's relational models compute on a small graph, as JSON.

    relational_reference.py > engine/model/layers/relational_reference.json

The graph has node types of several widths, one that has no edges in (so that it
drops out of later layers), and an edge type without edges. For each model: its
config, its parameters, logits of all nodes of the target type, their loss, and
the L2 norm of the loss's gradient by each parameter.
"""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import torch

from pyg_relational_models import RelationalConfig, new_model

NODES = {"paper": (7, 6), "author": (5, 4), "venue": (2, 6), "tag": (3, 3)}  # count, columns
EDGES = {
    ("paper", "cites", "paper"): 12,
    ("author", "writes", "paper"): 11,
    ("paper", "rev_writes", "author"): 11,
    ("tag", "about", "paper"): 12,  # no edges lead to tags
    ("venue", "hosts", "paper"): 0,
    ("paper", "appears_in", "venue"): 5,
}
HIDDEN, CLASSES, LAYERS = 8, 5, 3


def make_graph(random: np.random.Generator, widths: dict[str, int]):
    x = {name: random.standard_normal((count, widths[name])).round(3)
         for name, (count, _) in NODES.items()}
    edges = {}
    for (source, name, destination), count in EDGES.items():
        pairs = random.permutation(NODES[source][0] * NODES[destination][0])[:count]
        edges[source, name, destination] = np.stack(
            [pairs % NODES[source][0], pairs // NODES[source][0]])
    return x, edges


def example(model: str, widths: dict[str, int], **more) -> dict:
    random = np.random.default_rng(4)
    torch.manual_seed(4)
    x, edges = make_graph(random, widths)
    labels = random.integers(0, CLASSES, NODES["paper"][0])
    config = RelationalConfig(
        model, max(widths.values()), HIDDEN, CLASSES, LAYERS,
        node_types=[{"name": name, "in_channels": width} for name, width in widths.items()],
        edge_types=[list(key) for key in EDGES], target="paper", **more)
    network = new_model(config).double()
    with torch.no_grad():
        for parameter in network.parameters():  # biases, too, and short in text
            values = random.uniform(-0.5, 0.5, tuple(parameter.shape)).round(3)
            parameter.copy_(torch.from_numpy(values))
    logits = network({name: torch.from_numpy(rows) for name, rows in x.items()},
                     {key: torch.from_numpy(ends) for key, ends in edges.items()})
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))
    loss.backward()
    return {
        "config": dataclasses.asdict(config),
        "x": {name: rows.tolist() for name, rows in x.items()},
        "edges": [ends.tolist() for ends in edges.values()],
        "labels": labels.tolist(),
        "state_dict": {name: {"shape": list(values.shape), "values": values.flatten().tolist()}
                       for name, values in network.state_dict().items()},
        "logits": logits.detach().flatten().numpy().round(7).tolist(),
        "loss": loss.item(),
        "gradient_norms": {
            name: 0.0 if parameter.grad is None else parameter.grad.norm().item()
            for name, parameter in network.named_parameters()
        },
    }


def examples() -> list[dict]:
    widths = {name: columns for name, (_, columns) in NODES.items()}
    equal = {name: 4 for name in NODES}
    return [
        example("rsage", widths),
        example("rgat", widths, heads=2),
        example("rgcn", widths),
        example("rgcn", widths, num_bases=3),
        example("rgcn", equal),
        example("rsage", equal),
    ]


def main() -> None:
    entries = [json.dumps(entry, separators=(",", ":")) for entry in examples()]
    print("[\n" + ",\n".join(entries) + "\n]")


if __name__ == "__main__":
    main()
