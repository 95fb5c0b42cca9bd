"""The peers' trimmed GraphSAGE: it is that of PyG's layers over the whole subgraph."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="PyG is not installed")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np  # noqa: E402

from csc_sampler import CscSampler  # noqa: E402
from training import Trainer  # noqa: E402
from trimmed_sage import Sage, trim  # noqa: E402

SEEDS = np.array([7, 0, 9, 3])
CLASSES = 4


def sample(hops):
    random = np.random.default_rng(5)
    degrees = random.integers(0, 9, 50)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    indices = np.concatenate([random.choice(50, degree, replace=False) for degree in degrees])
    return CscSampler(indptr, indices, 3).sample(SEEDS, [3] * hops)


def layers_of(sampled):
    return trim(torch.from_numpy(sampled.sources), torch.from_numpy(sampled.destinations),
                sampled.nodes_of_hops, sampled.edges_of_hops)


def whole(model, x, sampled):
    """The seeds' scores, of PyG's layers run over all of the subgraph."""
    edges = torch.from_numpy(np.stack([sampled.sources, sampled.destinations]))
    for conv in model.convs[:-1]:
        x = conv(x, edges).relu()
    return model.convs[-1](x, edges)[: len(SEEDS)]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_trimmed_layers_give_the_scores_and_gradients_of_the_whole(hops):
    torch.manual_seed(1)
    sampled = sample(hops)
    model = Sage([6, *[8] * (hops - 1), CLASSES])
    x = torch.randn(len(sampled.nodes), 6)
    expected = whole(model, x, sampled)
    expected.square().sum().backward()
    theirs = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    trimmed = model(x, layers_of(sampled))
    trimmed.square().sum().backward()
    torch.testing.assert_close(trimmed, expected)
    for parameter, gradient in zip(model.parameters(), theirs, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-4)


def test_each_layer_has_the_rows_that_the_next_one_reads():
    sampled = sample(3)
    layers = layers_of(sampled)
    assert [layer.size(0) for layer in layers] == [
        sum(sampled.nodes_of_hops[:count]) for count in (3, 2, 1)]
    assert [layer.size(1) for layer in layers] == [
        sum(sampled.nodes_of_hops[:count]) for count in (4, 3, 2)]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_steps_learn_in_either_precision(precision):
    torch.manual_seed(1)
    sampled = sample(2)
    layers, x = layers_of(sampled), torch.randn(len(sampled.nodes), 6)
    trainer = Trainer(Sage([6, 32, CLASSES]), precision)
    labels = torch.arange(len(SEEDS)) % CLASSES
    losses = [trainer.step(labels, x, layers) for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
