"""Tests that trimming layers changes no score and no gradient."""

import numpy as np
import pytest
import torch

from neighbor_sampler import NeighborSampler
from pyg_models import MODELS, Model, ModelConfig
from pyg_trimmed_layers import scores
from test_pyg_trimmed import gradients

SEEDS = np.array([3, 0, 4, 11])
NUM_NODES = 60


def sample(hops):
    """Of a graph with loops, and with nodes that have no in-edges."""
    random = np.random.default_rng(7)
    pairs = np.unique(random.integers(0, NUM_NODES, size=(260, 2)), axis=0)
    edges = pairs[pairs[:, 1] != SEEDS[1]].T.copy()
    assert (edges[0] == edges[1]).any()
    return NeighborSampler(edges, NUM_NODES, 1).sample(SEEDS, [3] * hops)


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_trimmed_layers_give_the_scores_of_the_whole_subgraph(name, num_layers):
    torch.manual_seed(2)
    model = Model(ModelConfig(name, 6, 8, 4, num_layers, heads=2, dropout=0.5)).eval()
    nodes, edges, nodes_of_hops = sample(num_layers)
    x, edge_index = torch.randn(len(nodes), 6), torch.from_numpy(edges)
    trimmed = scores(model, x, edge_index, nodes_of_hops)
    expected = model(x, edge_index)[: len(SEEDS)]
    torch.testing.assert_close(trimmed, expected)
    ours, theirs = gradients(model, trimmed), gradients(model, expected)
    for parameter, values in theirs.items():
        torch.testing.assert_close(ours[parameter], values, atol=1e-5, rtol=1e-4)


def test_dropout_hits_what_is_trimmed():
    torch.manual_seed(2)
    model = Model(ModelConfig("sage", 6, 8, 4, 2, dropout=0.9)).train()
    nodes, edges, nodes_of_hops = sample(2)
    x, edge_index = torch.ones(len(nodes), 6), torch.from_numpy(edges)
    first = scores(model, x, edge_index, nodes_of_hops)
    assert not torch.equal(first, scores(model, x, edge_index, nodes_of_hops))
