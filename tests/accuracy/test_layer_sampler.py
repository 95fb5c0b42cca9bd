"""The reference's layer-wise sampling, by its definition."""

import numpy as np
import pytest

from layer_sampler import LayerSampler

# Node 3 feeds 0, 1 and 2; 4 and 5 feed 0 alone; 1 feeds 2.
_EDGES = np.array([[3, 4, 5, 3, 3, 1], [0, 0, 0, 1, 2, 2]])
_IMPORTANCE = {3: 1 / 9 + 1 + 1 / 4, 4: 1 / 9, 5: 1 / 9, 1: 1 / 4}


def draw(count, seed):
    nodes, (layer,) = LayerSampler(_EDGES, 6, seed).sample(np.array([0, 1, 2]), [count])
    return nodes, layer


@pytest.mark.parametrize("count", [4, 100])
def test_all_are_kept_with_equal_weights_where_there_is_room(count):
    nodes, layer = draw(count, 0)
    assert nodes.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.allclose(layer.weights, [1 / 3, 1 / 3, 1 / 3, 1, 0.5, 0.5])


def test_weights_are_inverse_to_importance():
    for seed in range(50):
        nodes, layer = draw(2, seed)
        drawn = {int(node) for node in nodes[layer.sources]}
        assert len(drawn) == 2
        for row in range(3):
            mine = layer.destinations == row
            if not mine.any():
                continue
            parts = np.array([1 / _IMPORTANCE[int(node)] for node in nodes[layer.sources[mine]]])
            assert np.allclose(layer.weights[mine], parts / parts.sum())


def test_nodes_are_drawn_as_often_as_they_matter():
    total = sum(_IMPORTANCE.values())
    times = dict.fromkeys(_IMPORTANCE, 0)
    for seed in range(4000):
        nodes, layer = draw(1, seed)
        times[int(nodes[layer.sources[0]])] += 1
    for node, importance in _IMPORTANCE.items():
        assert abs(times[node] / 4000 - importance / total) < 0.05
