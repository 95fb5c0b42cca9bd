"""Tests that trimming layers changes no score and no gradient."""

import numpy as np
import pytest
import torch

from pyg_relational_models import RelationalConfig, new_model
from pyg_trimmed import layers_of, scores
from test_typed_neighbor_sampler import NUM_NODES, random_graph, sample

SEEDS = [3, 0, 4, 11]


def whole(model, x, subgraph):
    """The seeds' scores, of all layers run over all of the subgraph."""
    edges = {key: torch.from_numpy(np.concatenate([hop[key] for hop in subgraph.hops], axis=1))
             for key in subgraph.hops[0]}
    return model(x, edges)[: len(SEEDS)]


def gradients(model, values):
    """Of a sum of the scores with weights of their own, by parameter."""
    model.zero_grad()
    (values * torch.arange(values.numel()).reshape(values.shape).cos()).sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("widths", [{"a": 6, "b": 6, "c": 6}, {"a": 6, "b": 3, "c": 5}])
@pytest.mark.parametrize("name", ["rgcn", "rsage", "rgat"])
def test_trimmed_layers_give_the_scores_of_the_whole_subgraph(name, widths, num_layers):
    torch.manual_seed(2)
    graph = random_graph()
    nodes = [{"name": kind, "in_channels": width} for kind, width in widths.items()]
    model = new_model(RelationalConfig(name, 6, 8, 4, num_layers, nodes, [*map(list, graph)], "a",
                                       heads=2, dropout=0.5)).eval()
    subgraph = sample(graph, SEEDS, [3] * num_layers)
    x = {kind: torch.randn(len(rows), widths[kind]) for kind, rows in subgraph.nodes.items()}
    assert set(subgraph.nodes) == set(NUM_NODES)
    trimmed, expected = scores(model, x, layers_of(subgraph)), whole(model, x, subgraph)
    torch.testing.assert_close(trimmed, expected)
    ours, theirs = gradients(model, trimmed), gradients(model, expected)
    for parameter, values in theirs.items():
        if values is None:
            assert ours[parameter] is None
        else:
            torch.testing.assert_close(ours[parameter], values, atol=1e-5, rtol=1e-4)
