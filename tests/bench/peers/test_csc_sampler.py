"""The peers' numpy sampler."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from csc_sampler import CscSampler, choose  # noqa: E402

NODES = 200


@pytest.fixture
def graph():
    random = np.random.default_rng(5)
    degrees = random.integers(0, 30, NODES)
    degrees[0] = 0
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    indices = np.concatenate([random.choice(NODES, degree, replace=False) for degree in degrees])
    return indptr, indices.astype(np.int32)


def test_choices_are_distinct_and_below_the_degree():
    degrees = np.array([3, 4, 1000])
    for seed in range(50):
        chosen = choose(degrees, 3, np.random.default_rng(seed))
        assert all(len(set(row)) == 3 for row in chosen.tolist())
        assert (chosen >= 0).all() and (chosen < degrees[:, None]).all()


def test_choices_are_uniform():
    chosen = choose(np.full(60_000, 5), 2, np.random.default_rng(1))
    shares = np.bincount(chosen.ravel(), minlength=5) / len(chosen)
    np.testing.assert_allclose(shares, 0.4, atol=0.01)


def test_each_reached_node_has_its_fanout_of_real_edges(graph):
    indptr, indices = graph
    seeds = np.array([7, 0, 9])
    sampled = CscSampler(indptr, indices, 3).sample(seeds, [4, 2])
    assert sampled.nodes[:3].tolist() == [7, 0, 9]
    assert len(set(sampled.nodes.tolist())) == len(sampled.nodes)
    pairs = list(zip(sampled.nodes[sampled.sources], sampled.nodes[sampled.destinations]))
    assert len(set(pairs)) == len(pairs)
    for source, destination in pairs:
        assert source in indices[indptr[destination]:indptr[destination + 1]]
    kept = {node: sum(destination == node for _, destination in pairs) for node in sampled.nodes}
    first_hop = {source for source, destination in pairs if destination in seeds} - set(seeds)
    for node, count in kept.items():
        fanout = 4 if node in seeds else 2 if node in first_hop else 0
        assert count == min(fanout, indptr[node + 1] - indptr[node])


def test_a_sampler_starts_afresh_with_each_batch(graph):
    sampler = CscSampler(*graph, 3)
    sampler.sample(np.arange(50), [5, 5])
    again = sampler.sample(np.array([7]), [40])
    indptr, indices = graph
    assert set(again.nodes.tolist()) == {7, *indices[indptr[7]:indptr[8]].tolist()}


def test_hops_and_the_order_of_edges_tell_what_each_layer_needs(graph):
    sampled = CscSampler(*graph, 3).sample(np.array([7, 0, 9]), [4, 2])
    assert (np.diff(sampled.destinations) >= 0).all()
    assert sampled.nodes_of_hops[0] == 3
    assert sum(sampled.nodes_of_hops) == len(sampled.nodes)
    assert sum(sampled.edges_of_hops) == len(sampled.sources)
    first = sampled.edges_of_hops[0]
    assert sampled.destinations[:first].max() < 3 <= sampled.destinations[first:].min()
    assert sampled.sources[:first].max() < sum(sampled.nodes_of_hops[:2])
