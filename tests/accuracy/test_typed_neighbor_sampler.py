"""Tests of the numpy neighbor sampler for graphs of several types."""

import numpy as np
import pytest

from typed_neighbor_sampler import TypedNeighborSampler

NUM_NODES = {"a": 120, "b": 80, "c": 9}
EDGE_TYPES = [("a", "r", "a"), ("b", "s", "a"), ("a", "t", "b"), ("b", "t", "a"), ("c", "u", "b")]


def random_graph():
    """Random edges without duplicates; node 0 of each type has no in-edges."""
    random = np.random.default_rng(5)
    edges = {}
    for source, name, destination in EDGE_TYPES:
        ends = [random.integers(0, NUM_NODES[source], 700),
                random.integers(1, NUM_NODES[destination], 700)]
        edges[source, name, destination] = np.unique(np.stack(ends), axis=1)
    return edges


@pytest.fixture
def graph():
    return random_graph()


def sample(graph, seeds, fanouts, seed=1):
    return TypedNeighborSampler(graph, NUM_NODES, seed).sample("a", np.array(seeds), fanouts)


def pairs_of_hops(subgraph, key):
    """The edges of each hop as (source node, destination node) pairs."""
    sources, destinations = subgraph.nodes[key[0]], subgraph.nodes[key[2]]
    return [list(zip(sources[hop[key][0]], destinations[hop[key][1]])) for hop in subgraph.hops]


def test_edges_exist_and_are_not_repeated(graph):
    subgraph = sample(graph, [3, 1, 4], [5, 5, 5])
    for key, edges in graph.items():
        sampled = sum(pairs_of_hops(subgraph, key), [])
        assert sampled
        assert len(sampled) == len(set(sampled))
        assert set(sampled) <= set(map(tuple, edges.T))


def test_seeds_come_first_and_nodes_are_distinct(graph):
    nodes, reached, _ = sample(graph, [3, 1, 4], [5, 5])
    assert nodes["a"][:3].tolist() == [3, 1, 4]
    for kind, rows in nodes.items():
        assert len(set(rows)) == len(rows) == reached[kind][-1]
    assert [reached[kind][0] for kind in NUM_NODES] == [3, 0, 0]
    assert reached["c"][1] == 0  # No edge leads from c to the seeds' type.
    assert reached["c"][2] > 0


def test_each_hop_gives_new_nodes_their_fanout_of_each_edge_type(graph):
    subgraph = sample(graph, [3, 0, 4], [4, 2])
    for key, edges in graph.items():
        degrees = np.bincount(edges[1], minlength=NUM_NODES[key[2]])
        ends = [0, *subgraph.reached[key[2]]]
        for hop, (fanout, pairs) in enumerate(zip([4, 2], pairs_of_hops(subgraph, key))):
            frontier = subgraph.nodes[key[2]][ends[hop] : ends[hop + 1]]
            kept = {node: 0 for node in frontier}
            for _, destination in pairs:
                kept[destination] += 1
            assert kept == {node: min(fanout, degrees[node]) for node in frontier}


def test_nodes_are_reached_by_edges_of_their_hop(graph):
    subgraph = sample(graph, [7, 8], [3, 3])
    for kind, ends in subgraph.reached.items():
        for hop, edges in enumerate(subgraph.hops):
            rows = np.concatenate([ends_of[0] for key, ends_of in edges.items() if key[0] == kind])
            assert set(range(ends[hop], ends[hop + 1])) <= set(rows) <= set(range(ends[hop + 1]))


def test_all_neighbors_give_the_closed_neighborhood(graph):
    subgraph = sample(graph, [7], [-1, -1])
    frontier, known = {("a", 7)}, {("a", 7)}
    for hop in range(2):
        met = set()
        for key, edges in graph.items():
            expected = {pair for pair in map(tuple, edges.T) if (key[2], pair[1]) in frontier}
            assert set(pairs_of_hops(subgraph, key)[hop]) == expected
            met |= {(key[0], source) for source, _ in expected}
        frontier = met - known
        known |= met
    assert {(kind, node) for kind, rows in subgraph.nodes.items() for node in rows} == known


def test_a_seed_without_neighbors(graph):
    subgraph = sample(graph, [0], [5, 5])
    assert {kind: rows.tolist() for kind, rows in subgraph.nodes.items()} == {
        "a": [0], "b": [], "c": []}
    assert all(edges.shape == (2, 0) for hop in subgraph.hops for edges in hop.values())


def test_sampling_is_uniform_and_repeats_with_its_seed():
    star = {("b", "s", "a"): np.stack([np.arange(20), np.zeros(20, dtype=np.int64)])}
    sampler = TypedNeighborSampler(star, NUM_NODES, seed=1)
    drawn = np.concatenate([sampler.sample("a", np.array([0]), [5]).nodes["b"]
                            for _ in range(4000)])
    counts = np.bincount(drawn, minlength=20)
    assert counts.sum() == 20000
    # Each count is binomial with mean 1000 and deviation 27: five deviations.
    assert np.abs(counts - 1000).max() < 137
    again = TypedNeighborSampler(star, NUM_NODES, seed=1)
    drawn_again = [again.sample("a", np.array([0]), [5]).nodes["b"] for _ in range(4000)]
    assert np.array_equal(np.concatenate(drawn_again), drawn)
