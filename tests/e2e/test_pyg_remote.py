"""hearth.pyg.remote: PyG's own loaders over the daemon's graph, with nodes that scripts choose."""

from __future__ import annotations

from collections import deque

import grpc
import numpy as np
import pytest

from daemon import TIRELESS, wait_for

pytest.importorskip("grpc", reason="grpcio is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.loader import NodeLoader  # noqa: E402
from torch_geometric.sampler import NodeSamplerInput  # noqa: E402

import hearth  # noqa: E402
import hearth.pyg  # noqa: E402
from graphs import planted_graph  # noqa: E402
from hearth.errors import HearthError  # noqa: E402
from hearth.torch import NeighborLoader  # noqa: E402
from hearth.torch.batches import Arrays, made  # noqa: E402
from hearth.torch.session import Run  # noqa: E402
from hearth.v1 import feeds_pb2  # noqa: E402
from heterographs import planted_heterograph  # noqa: E402

OPTIONS = {"num_neighbors": [5, 4], "batch_size": 64}


def client_of(daemon) -> hearth.Client:
    return hearth.Client(f"unix:{daemon.data_dir}/hearth.sock")


@pytest.fixture
def client(daemon):
    with client_of(daemon) as made_client:
        yield made_client


@pytest.fixture(scope="module")
def trained(daemon):
    """The batches of an epoch of the split, kept."""
    with client_of(daemon) as client:
        with NeighborLoader(client, dataset="planted", strategy="memory", **OPTIONS) as loader:
            return [batch.clone() for batch in loader]


def seeds_of(batch) -> torch.Tensor:
    return batch.n_id[:batch.batch_size].clone()


def asked(sampler, nodes):
    return sampler.sample_from_nodes(NodeSamplerInput(None, torch.as_tensor(nodes)))


def is_same(batch, wanted) -> bool:
    return all(torch.equal(batch[name], wanted[name])
               for name in ("x", "y", "n_id", "edge_index")) and (
        batch.num_sampled_nodes, batch.num_sampled_edges) == (
        wanted.num_sampled_nodes, wanted.num_sampled_edges)


@pytest.mark.parametrize("options", [
    {"strategy": "memory"}, {"strategy": "mmap"},
    {"strategy": "gnndrive", "cpu_cache": "16KiB"},
    {"strategy": "gnndrive", "samplers": 3, "extractors": 2},
], ids=lambda options: "-".join(map(str, options.values())))
def test_equal_seeds_have_equal_batches_with_every_strategy(client, trained, options):
    stores, sampler = hearth.pyg.remote(client, "planted", **OPTIONS, **options)
    nodes = torch.cat([seeds_of(batch) for batch in trained])
    batches = NodeLoader(stores, sampler, input_nodes=nodes, batch_size=64)
    for number, batch in enumerate(batches):
        assert is_same(batch, trained[number]), number
    assert number == len(trained) - 1
    sampler.close()


def test_batches_are_of_the_graph(start_daemon, tmp_path):
    graph = planted_graph()
    graph.node_label[::3] = -1
    edges = set(map(tuple, graph.edge_index.T.tolist()))
    degrees = np.bincount(graph.edge_index[1], minlength=3000)
    daemon = start_daemon()
    daemon.import_graph("sparse", graph.write(tmp_path / "sparse"))
    with client_of(daemon) as client:
        stores, sampler = hearth.pyg.remote(client, "sparse", **OPTIONS)
        nodes = torch.randperm(3000)[:1000]
        loader = NodeLoader(stores, sampler, input_nodes=nodes, batch_size=60)
        for number, batch in enumerate(loader):
            seeds = nodes[60 * number:60 * number + 60]
            assert torch.equal(seeds_of(batch), seeds)
            assert np.array_equal(batch.x, graph.node_feat[batch.n_id])
            assert np.array_equal(batch.y, graph.node_label[seeds])
            sources, destinations = batch.n_id[batch.edge_index].tolist()
            assert edges.issuperset(zip(sources, destinations))
            drawn = np.bincount(batch.edge_index[1], minlength=len(batch.n_id))[:len(seeds)]
            assert np.array_equal(drawn, np.minimum(degrees[seeds], 5))
        assert number == 16
        sampler.close()


def test_types(daemon, client, typed_folder):
    graph = planted_heterograph()
    daemon.json("dataset", "import", "typed", "--source", str(typed_folder))
    (features, store), sampler = hearth.pyg.remote(client, "typed", **OPTIONS)
    assert {one.edge_type for one in store.get_all_edge_attrs()} == set(graph.edges)
    assert features.get_tensor_size("author", "x") == (1000, 20)
    nodes = torch.randperm(2000)[:128]
    edges = {kind: set(map(tuple, pairs.T.tolist())) for kind, pairs in graph.edges.items()}
    loader = NodeLoader((features, store), sampler, input_nodes=("paper", nodes), batch_size=64)
    for number, batch in enumerate(loader):
        seeds = nodes[64 * number:64 * number + 64]
        assert torch.equal(batch["paper"].n_id[:64], seeds)
        assert np.array_equal(batch["paper"].y, graph.labels[seeds])
        for kind, rows in graph.features.items():
            assert np.array_equal(batch[kind].x, rows[batch[kind].n_id].astype(np.float32))
        for kind in graph.edges:
            row, col = batch[kind].edge_index
            assert edges[kind].issuperset(zip(batch[kind[0]].n_id[row].tolist(),
                                              batch[kind[2]].n_id[col].tolist()))
    assert number == 1
    sampler.close()


def test_a_wrong_request_harms_nothing_else(client, trained):
    _, sampler = hearth.pyg.remote(client, "planted", **OPTIONS, strategy="memory")
    for nodes, words in (([5, 7, 5], "has seed 5 twice"), ([3000], "not a node"),
                         (range(65), "more than 64 seeds, the batch_size")):
        with pytest.raises(HearthError, match=words) as error:
            asked(sampler, list(nodes))
        assert error.value.code is grpc.StatusCode.INVALID_ARGUMENT
    # Those count, too.
    sample = asked(sampler, seeds_of(trained[3]))
    assert torch.equal(sample.node, trained[3].n_id)
    sampler.close()
    _, sampler = hearth.pyg.remote(client, "planted", **OPTIONS, strategy="ginex",
                                   distinct_epochs=1)
    with pytest.raises(HearthError, match="strategy ginex, but with memory, mmap and gnndrive"):
        asked(sampler, [1])
    sampler.close()


def test_several_requests_wait_at_a_time(client, trained):
    _, sampler = hearth.pyg.remote(client, "planted", **OPTIONS, strategy="gnndrive")
    feed = sampler._backend._feed
    run = Run(feeds_pb2.FEED_REQUESTS, feeds_pb2.FEED_GRAPH, epoch=0, next_batch=0,
              requests=deque())
    # As many as may wait.
    asked_for = trained[:16]
    for batch in asked_for:
        feed.ask(run, seeds_of(batch).tolist())
    for number, wanted in enumerate(asked_for):
        arrived = feed.next(run)
        assert arrived.message.number == number
        batch = made("tensors", Arrays(arrived.message, arrived.lent, None), feed.welcome())
        assert torch.equal(batch["x"], wanted.x)
        assert torch.equal(batch["edge_index"], wanted.edge_index)
    feed.stop(run)
    sampler.close()


def test_a_script_that_pauses_and_a_daemon_that_is_killed(start_daemon, graph_folder, trained):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    with client_of(daemon) as client:
        _, sampler = hearth.pyg.remote(client, "planted", **OPTIONS, strategy="gnndrive")
        found = [asked(sampler, seeds_of(trained[0])).node.clone()]
        job = sampler._backend._feed.id
        # The job gives up its place, after 10 s.
        daemon.wait_for_state(job, "WAITING")
        found.append(asked(sampler, seeds_of(trained[1])).node.clone())
        daemon.kill()
        daemon.start()
        found.append(asked(sampler, seeds_of(trained[2])).node.clone())
        assert all(torch.equal(nodes, batch.n_id) for nodes, batch in zip(found, trained))
        del found
        sampler.close()
        daemon.wait_for_state(job, "SUCCEEDED")
        wait_for(lambda: not [path for path in daemon.descriptors() if "memfd:hearth" in path],
                 "the slots are freed")
