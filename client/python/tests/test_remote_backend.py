"""hearth.pyg.remote: samples of the daemon in PyG's own loaders."""

from __future__ import annotations

import gc
import pickle

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")
pytest.importorskip("numpy", reason="numpy is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.data import remote_backend_utils  # noqa: E402
from torch_geometric.loader import NodeLoader  # noqa: E402
from torch_geometric.sampler import NodeSamplerInput  # noqa: E402

import hearth  # noqa: E402
import hearth.pyg  # noqa: E402
from fake_feed import EDGE_TYPES, TYPES, FakeFeed, Graph  # noqa: E402
from test_torch_loader import same, wait_until  # noqa: E402
from hearth.torch import NeighborLoader  # noqa: E402
from hearth.v1 import feeds_pb2  # noqa: E402


@pytest.fixture
def start(tmp_path):
    """Starts a daemon with a graph; returns it and what `remote` makes."""
    started = []

    def with_graph(graph=None, credits=4, **options):
        feed = FakeFeed(tmp_path, graph, credits)
        client = hearth.Client(feed.address, watch_patience=20)
        stores, sampler = hearth.pyg.remote(client, "papers", num_neighbors=[3, 2], batch_size=4,
                                            **options)
        started.append((feed, client, sampler))
        return feed, stores, sampler

    yield with_graph
    for feed, client, sampler in started:
        sampler.close()
        gc.collect()
        client.close()
        feed.stop()


def loader_of(stores, sampler, nodes, **more):
    return NodeLoader(stores, sampler, input_nodes=nodes, **{"batch_size": 4, **more})


def asked(sampler, *nodes, input_type=None):
    return sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor(nodes), None, input_type))


def test_a_loader_of_pyg_has_the_batches_of_its_nodes(start):
    feed, stores, sampler = start()
    nodes = torch.tensor([5, 900, 17, 3, 44, 12])
    for epoch in range(2):
        for number, batch in enumerate(loader_of(stores, sampler, nodes)):
            seeds = nodes[4 * number:4 * number + 4].tolist()
            wanted = feed.graph.requested(2 * epoch + number, seeds).arrays
            for name in ("x", "edge_index", "y", "n_id"):
                same(batch[name], wanted[name, None, None])
            assert batch.n_id[:batch.batch_size].tolist() == seeds
            assert batch.num_nodes == len(batch.n_id) == sum(batch.num_sampled_nodes)
            assert batch.input_id.tolist() == [*range(4 * number, 4 * number + len(seeds))]
            assert batch.num_sampled_edges == [7, 7]
        assert number == 1
    spec, = feed.specs
    assert list(spec.data.subgraph.fanouts) == [3, 2] and spec.data.batch_size == 4
    opened, = feed.messages("open")
    assert opened.split == feeds_pb2.FEED_REQUESTS
    sampler.close()
    wait_until(lambda: feed.messages("bye"))
    same(batch.x, wanted["x", None, None])
    with pytest.raises(RuntimeError, match="closed"):
        asked(sampler, 1)


def test_hetero_data_have_values_by_type(start):
    feed, stores, sampler = start(Graph(is_typed=True))
    nodes = torch.tensor([5, 900, 17, 3])
    batch = next(iter(loader_of(stores, sampler, ("paper", nodes))))
    wanted = feed.graph.requested(0, nodes.tolist()).arrays
    for i, (name, dim) in enumerate(TYPES):
        same(batch[name].x, wanted["x", None, None][wanted["rows", i, None], :dim])
        same(batch[name].n_id, wanted["n_id", i, None])
    same(batch["paper"].y, wanted["y", 0, None])
    assert "y" not in batch["author"] and batch["paper"].batch_size == 4
    for i, name in enumerate(EDGE_TYPES):
        same(batch[tuple(name.split(":"))].edge_index, wanted["edge_index", i, None])
    assert batch["author"].num_sampled_nodes == [0, 3, 3]
    assert batch["paper", "cites", "paper"].num_sampled_edges == [6, 0]
    with pytest.raises(hearth.InvalidRequest, match="'author', not of 'paper'"):
        asked(sampler, 1, input_type="author")
    with pytest.raises(hearth.InvalidRequest, match="id -4 at position 1") as refused:
        asked(sampler, 3, -4, -5, input_type="paper")
    assert refused.value.field == "input_nodes"


def test_the_stores_know_sizes(start):
    _, (features, graph), _ = start(Graph(is_typed=True))
    assert [(one.group_name, one.attr_name) for one in features.get_all_tensor_attrs()] == [
        ("paper", "x"), ("author", "x"), ("paper", "y")]
    assert features.get_tensor_size("author", "x") == (1000, 4)
    assert features.get_tensor_size("paper", "y") == (1000,)
    assert features.get_tensor_size("author", "y") is None
    assert features.get_tensor_size("paper", "x", torch.arange(3)) == (3, 6)
    assert [one.edge_type for one in graph.get_all_edge_attrs()] == [
        tuple(name.split(":")) for name in EDGE_TYPES]
    assert remote_backend_utils.num_nodes(features, graph, "author") == 1000
    assert remote_backend_utils.size(features, graph, tuple(EDGE_TYPES[0].split(":"))) == (
        1000, 1000)


def test_the_stores_of_one_type_know_sizes(start):
    _, (features, graph), sampler = start()
    assert [(one.group_name, one.attr_name) for one in features.get_all_tensor_attrs()] == [
        (None, "x"), (None, "y")]
    assert features.get_tensor_size(None, "x") == (1000, 6)
    edge, = graph.get_all_edge_attrs()
    assert edge.edge_type is None and edge.size == (1000, 1000)
    with pytest.raises(hearth.InvalidRequest, match="have a type"):
        asked(sampler, 1, input_type="paper")


def test_what_cannot_work_says_so(start):
    _, (features, graph), sampler = start()
    sample = asked(sampler, 1, 2)
    with pytest.raises(NotImplementedError, match="n_id of a batch"):
        features.get_tensor(None, "x", sample.node.clone())
    with pytest.raises(NotImplementedError, match="n_id of a batch"):
        features[None, "x", None]
    with pytest.raises(KeyError, match="no z"):
        features.get_tensor(None, "z", sample.node)
    edge, = graph.get_all_edge_attrs()
    for refused in (lambda: graph.get_edge_index(edge), lambda: graph.coo(),
                    lambda: features.put_tensor(sample.node, None, "x", None),
                    lambda: features.remove_tensor(None, "x", None),
                    lambda: graph.put_edge_index(None, edge),
                    lambda: graph.remove_edge_index(edge),
                    lambda: sampler.sample_from_edges(None),
                    lambda: sampler.sample_from_nodes(
                        NodeSamplerInput(None, sample.node, sample.node))):
        with pytest.raises(NotImplementedError):
            refused()


def test_workers_are_refused(start, monkeypatch):
    _, stores, sampler = start()
    loader = loader_of(stores, sampler, torch.arange(8), num_workers=1,
                       multiprocessing_context="spawn")
    with pytest.raises(RuntimeError, match="num_workers must be 0"):
        next(iter(loader))
    for one in (*stores, sampler):
        with pytest.raises(RuntimeError, match="pickled"):
            pickle.dumps(one)
    # As in a worker that was forked.
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: object())
    with pytest.raises(RuntimeError, match="num_workers must be 0"):
        asked(sampler, 1)


def test_slots_return_when_the_batch_is_gone(start):
    feed, stores, sampler = start()
    for batch in loader_of(stores, sampler, torch.arange(400)):
        assert feed.held <= 2
    x = batch.x
    del batch
    asked(sampler, 1)
    del x
    wait_until(lambda: feed.held == 0)
    # A script that keeps all gets copies.
    assert len(list(loader_of(stores, sampler, torch.arange(80)))) == 20


def test_requests_of_many_nodes_come_in_parts(start):
    feed, _, sampler = start()
    nodes = [*range(9000)]
    assert asked(sampler, *nodes).node[:9000].tolist() == nodes
    assert [(len(one.nodes), one.goes_on) for one in feed.messages("request")] == [
        (4096, True), (4096, True), (808, False)]


def test_an_error_ends_the_pass_and_the_next_sample_opens_another(start):
    feed, _, sampler = start()
    asked(sampler, 1)
    feed.is_slow = True
    feed.ends.append((3, "request 1 has seed 5 twice"))
    with pytest.raises(hearth.HearthError, match="seed 5 twice"):
        asked(sampler, 5, 5)
    feed.is_slow = False
    same(asked(sampler, 7).node, feed.graph.requested(2, [7]).arrays["n_id", None, None])
    assert [one.first_batch for one in feed.messages("open")] == [0, 2]


def test_a_killed_daemon_is_asked_again(start):
    feed, _, sampler = start()
    asked(sampler, 1)
    feed.kill()
    feed.start()
    same(asked(sampler, 7).node, feed.graph.requested(1, [7]).arrays["n_id", None, None])


def test_a_job_that_has_waited_is_asked_again(start):
    feed, stores, sampler = start()
    batches = iter(loader_of(stores, sampler, torch.arange(12)))
    for number, batch in enumerate(batches):
        same(batch.x, feed.graph.requested(number, batch.n_id[:4].tolist()).arrays[
            "x", None, None])
        for session in feed.sessions:
            session.is_waiting = True
            session.send(welcome=feed.graph.welcome(4))
    assert number == 2


def test_a_loader_of_the_same_options_shares_the_job(start):
    feed, stores, sampler = start()
    client = sampler._backend._feed._job._client
    batches = iter(loader_of(stores, sampler, torch.arange(12)))
    next(batches)
    with NeighborLoader(client, dataset="papers", num_neighbors=[3, 2],
                        batch_size=4) as train:
        for number, batch in enumerate(train):
            if number < 2:
                other = next(batches)
                same(other.x, feed.graph.requested(number + 1, other.n_id[:4].tolist()).arrays[
                    "x", None, None])
    assert number == 6 and len(feed.specs) == 1
