"""Tests of the numpy neighbor sampler."""

import numpy as np
import pytest

from neighbor_sampler import NeighborSampler

NUM_NODES = 200


@pytest.fixture
def graph():
    """A random graph without duplicate edges; node 0 has no in-edges."""
    random = np.random.default_rng(5)
    pairs = np.unique(random.integers(0, NUM_NODES, size=(1500, 2)), axis=0)
    return pairs[pairs[:, 1] != 0].T.copy()


def sample_nodes(sampler, seeds, fanouts):
    """The subgraph with its edges as (source node, destination node) pairs."""
    nodes, edges, _ = sampler.sample(np.array(seeds), fanouts)
    return nodes, [(nodes[source], nodes[destination]) for source, destination in edges.T]


def test_edges_exist_and_are_not_repeated(graph):
    _, edges = sample_nodes(NeighborSampler(graph, NUM_NODES, 1), [3, 1, 4], [5, 5])
    assert len(edges) == len(set(edges))
    assert set(edges) <= set(map(tuple, graph.T))


def test_seeds_come_first_and_nodes_are_distinct(graph):
    nodes, _ = sample_nodes(NeighborSampler(graph, NUM_NODES, 1), [3, 1, 4], [5, 5])
    assert nodes[:3].tolist() == [3, 1, 4]
    assert len(set(nodes)) == len(nodes)


def test_each_hop_gives_new_nodes_their_fanout(graph):
    degrees = np.bincount(graph[1], minlength=NUM_NODES)
    nodes, edges = sample_nodes(NeighborSampler(graph, NUM_NODES, 1), [3, 0, 4], [4, 2])
    kept = {node: sum(destination == node for _, destination in edges) for node in nodes}
    first_hop = {source for source, destination in edges if destination in (3, 0, 4)} - {3, 0, 4}
    for node in nodes:
        fanout = 4 if node in (3, 0, 4) else 2 if node in first_hop else 0
        assert kept[node] == min(fanout, degrees[node])


def test_all_neighbors_give_the_closed_neighborhood(graph):
    nodes, edges = sample_nodes(NeighborSampler(graph, NUM_NODES, 1), [7], [-1, -1])
    pairs = set(map(tuple, graph.T))
    first_hop = {source for source, destination in pairs if destination == 7} | {7}
    assert set(edges) == {pair for pair in pairs if pair[1] in first_hop}
    assert set(nodes) == {pair[0] for pair in edges} | {7}


def test_a_seed_without_neighbors(graph):
    nodes, edges = sample_nodes(NeighborSampler(graph, NUM_NODES, 1), [0], [5, 5])
    assert (nodes.tolist(), edges) == ([0], [])


def test_sampling_is_uniform_and_repeats_with_its_seed():
    star = np.stack([np.arange(1, 21), np.zeros(20, dtype=np.int64)])
    sampler = NeighborSampler(star, 21, seed=1)
    drawn = np.concatenate([sampler.sample(np.array([0]), [5]).nodes[1:] for _ in range(4000)])
    counts = np.bincount(drawn, minlength=21)[1:]
    assert counts.sum() == 20000
    # Each count is binomial with mean 1000 and deviation 27: five deviations.
    assert np.abs(counts - 1000).max() < 137
    again = NeighborSampler(star, 21, seed=1)
    drawn_again = [again.sample(np.array([0]), [5]).nodes[1:] for _ in range(4000)]
    assert np.array_equal(np.concatenate(drawn_again), drawn)


def test_hops_and_the_order_of_edges_tell_what_each_layer_needs(graph):
    nodes, edges, nodes_of_hops = NeighborSampler(graph, NUM_NODES, 1).sample(
        np.array([3, 1, 4]), [4, 2])
    assert nodes_of_hops[0] == 3 and sum(nodes_of_hops) == len(nodes)
    assert (np.diff(edges[1]) >= 0).all()
    first_hop = edges[:, edges[1] < 3]
    assert sum(nodes_of_hops[:2]) == 3 + len(set(first_hop[0][first_hop[0] >= 3]))
    assert edges[1].max() < sum(nodes_of_hops[:2])
