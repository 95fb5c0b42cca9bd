"""The samplers and features of the peers, where their packages are."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="PyG is not installed")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from peer import FEATURES, Batch, Reporter, open_graph  # noqa: E402

NODES = 400
SEEDS = [7, 0, 9]
FANOUTS = [4, 2]


@pytest.fixture
def folder(tmp_path):
    """A dataset in Hearth's files; features are as wide as a sector."""
    random = np.random.default_rng(5)
    degrees = random.integers(0, 9, NODES)
    np.save(tmp_path / "edge.indptr.npy", np.concatenate([[0], np.cumsum(degrees)]))
    np.save(tmp_path / "edge.indices.npy", np.concatenate(
        [random.choice(NODES, degree, replace=False) for degree in degrees]).astype(np.int32))
    np.save(tmp_path / "node.features.npy",
            random.standard_normal((NODES, 128), dtype=np.float32))
    np.save(tmp_path / "node.labels.npy", np.arange(NODES, dtype=np.int32) % 4)
    np.save(tmp_path / "node.train.npy", np.arange(0, NODES, 2))
    return tmp_path


@pytest.mark.parametrize("features", ["memory", "normal", "random"])
def test_features_are_the_same_wherever_they_are(folder, features):
    expected = np.load(folder / "node.features.npy")
    np.testing.assert_array_equal(open_graph(folder, features).features, expected)


def test_memory_is_told_while_threads_come_and_go():
    done = threading.Event()

    def churn():
        while not done.is_set():
            thread = threading.Thread(target=lambda: None)
            thread.start()
            thread.join()

    churner = threading.Thread(target=churn)
    churner.start()
    reporter = Reporter(512)
    reporter.epoch(iter([Batch(3, None)] * 200), None)
    done.set()
    churner.join()
    assert reporter.peak_bytes > 0


@pytest.mark.parametrize("which", ["NumpySampler", "PygLibSampler"])
def test_samplers_of_pyg_draw_real_edges_hop_by_hop(folder, which):
    import pyg_peer
    from torch_geometric.sampler import NodeSamplerInput

    if which == "PygLibSampler" and pyg_peer.pyg_lib is None:
        pytest.skip("pyg-lib is not installed")
    graph = open_graph(folder, "memory")
    sampled = getattr(pyg_peer, which)(graph, FANOUTS).sample_from_nodes(
        NodeSamplerInput(input_id=None, node=torch.tensor(SEEDS)))
    nodes, rows, columns = sampled.node.numpy(), sampled.row.numpy(), sampled.col.numpy()
    assert nodes[:3].tolist() == SEEDS and len(set(nodes)) == len(nodes)
    assert (np.diff(columns) >= 0).all()
    assert sum(sampled.num_sampled_nodes) == len(nodes) and len(sampled.num_sampled_nodes) == 3
    assert sum(sampled.num_sampled_edges) == len(rows)
    for source, destination in zip(nodes[rows], nodes[columns]):
        assert source in graph.indices[graph.indptr[destination]:graph.indptr[destination + 1]]
    for seed in SEEDS:
        degree = graph.indptr[seed + 1] - graph.indptr[seed]
        assert (nodes[columns] == seed).sum() == min(FANOUTS[0], degree)


@pytest.mark.parametrize("features", FEATURES)
def test_graphbolt_fetches_the_rows_of_its_nodes(folder, features):
    pytest.importorskip("dgl.graphbolt", reason="GraphBolt is not installed", exc_type=Exception)
    import graphbolt_peer

    graph = open_graph(folder, features)
    # Four batches' rows: with fewer, GraphBolt's cache may wait for itself for ever.
    feature = graphbolt_peer.open_feature(graph, folder, features, 4 * 52 * 512)
    expected = np.load(folder / "node.features.npy")
    for _ in range(2):
        seeds = 0
        for batch in graphbolt_peer.new_loader(graph, feature, FANOUTS, 4, 0):
            rows = batch.node_features["feat"].numpy()
            np.testing.assert_array_equal(rows, expected[batch.input_nodes.numpy()])
            layers = graphbolt_peer.layers_of(batch)
            assert layers[-1].size(0) == len(batch.labels)
            assert [layer.size(0) for layer in layers[:-1]] == [
                layer.size(1) for layer in layers[1:]]
            assert layers[0].size(1) == len(rows)
            seeds += len(batch.labels)
        assert seeds == len(graph.train)
