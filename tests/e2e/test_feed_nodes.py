"""Seeds that scripts choose themselves (input_nodes of hearth.torch), and labels of all nodes."""

from __future__ import annotations

import numpy as np
import pytest

from daemon import TIRELESS
from heterographs import planted_heterograph

pytest.importorskip("grpc", reason="grpcio is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from feed_client import digest  # noqa: E402

import hearth  # noqa: E402
from hearth.torch import NeighborLoader  # noqa: E402

LOADER = {"dataset": "planted", "num_neighbors": [5, 4], "batch_size": 64, "distinct_epochs": 2}
STRATEGIES = [{"strategy": "gnndrive", "cpu_cache": "16KiB"},
              {"strategy": "ginex", "cpu_cache": "16KiB"},
              {"strategy": "diskgnn", "cpu_cache": "16KiB"},
              {"strategy": "gids", "cpu_cache": "16KiB", "window_cache": "16KiB"}]
PARTITION = {"order": "partition", "parts": 24, "macro_batch_parts": 5}


@pytest.fixture
def client(daemon):
    with hearth.Client(f"unix:{daemon.data_dir}/hearth.sock") as made:
        yield made


def taken(client, epochs=2, **options):
    """Seeds, their places, and the digest of each batch."""
    with NeighborLoader(client, **{**LOADER, **options}) as loader:
        return [[(batch.n_id[:batch.batch_size].tolist(), batch.input_id.tolist(), digest(batch))
                 for batch in loader] for _ in range(epochs)]


def seeds_of(epoch):
    return [seed for seeds, _, _ in epoch for seed in seeds]


@pytest.fixture(scope="module")
def mine(graph):
    """Of all parts of the split, in no order."""
    return np.random.default_rng(5).permutation(len(graph.node_label))[:500]


def test_nodes_of_the_split_are_the_split(client, graph):
    for split, shuffle, nodes in (("train", True, graph.train_idx),
                                  ("valid", False, graph.valid_idx)):
        expected = taken(client, split=split)
        assert taken(client, input_nodes=nodes, shuffle=shuffle) == expected
        places = [place for _, found, _ in expected[1] for place in found]
        assert nodes[places].tolist() == seeds_of(expected[1])


def test_every_strategy_has_the_seeds_of_memory(client, mine):
    expected = taken(client, input_nodes=mine, strategy="memory")
    for epoch in expected:
        assert sorted(seeds_of(epoch)) == sorted(mine) and len(epoch) == 8
        for seeds, places, _ in epoch:
            assert mine[places].tolist() == seeds
    assert expected[0] != expected[1]
    for options in STRATEGIES:
        assert taken(client, input_nodes=mine, **options) == expected
    # What is planned and measured for some nodes is not used for others.
    others = mine[::-1].copy()
    expected = taken(client, input_nodes=others, strategy="memory")
    for options in STRATEGIES:
        assert taken(client, input_nodes=others, **options) == expected


def test_a_partition_orders_nodes_of_ones_own(client, mine):
    for nodes in (mine, mine[:300]):
        ordered = taken(client, input_nodes=nodes, strategy="memory", **PARTITION)
        for epoch in ordered:
            assert sorted(seeds_of(epoch)) == sorted(nodes)
            assert all(nodes[places].tolist() == seeds for seeds, places, _ in epoch)
        assert taken(client, input_nodes=nodes, strategy="outre", cpu_cache="64KiB",
                     **PARTITION) == ordered


def test_loaders_with_own_nodes_are_one_job(client, mine, graph):
    mask = np.zeros(len(graph.node_label), dtype=bool)
    mask[mine[:100]] = True
    train = NeighborLoader(client, **LOADER, input_nodes=torch.from_numpy(mine))
    valid = NeighborLoader(client, **LOADER, input_nodes=mask, shuffle=False)
    test = NeighborLoader(client, **LOADER, input_nodes=("node", mine[:70].tolist()), split="test")
    assert train.job.id == valid.job.id == test.job.id
    assert [len(one) for one in (train, valid, test)] == [8, 2, 2]
    for loader, nodes in ((valid, np.sort(mine[:100])), (test, mine[:70])):
        batches = list(loader)
        assert torch.cat([one.n_id[:one.batch_size] for one in batches]).tolist() == nodes.tolist()
        assert torch.cat([one.input_id for one in batches]).tolist() == list(range(len(nodes)))
    for loader in (train, valid, test):
        loader.close()


@pytest.mark.parametrize("nodes, words", [
    ([1, -2], r"ids\[1\]: must be from 0 to 2999, not -2"),
    ([1, 2, 3000], r"ids\[2\]: must be"), ([4, 1, 4], r"ids\[2\]: 4 is there twice")],
    ids=["negative", "large", "twice"])
def test_wrong_nodes_are_named(client, nodes, words):
    loader = NeighborLoader(client, **LOADER, input_nodes=nodes, shuffle=False)
    with pytest.raises(hearth.InvalidRequest, match=words):
        next(iter(loader))
    with pytest.raises(hearth.InvalidRequest, match="'planet', and the seeds of 'node'"):
        NeighborLoader(client, **LOADER, input_nodes=("planet", nodes))


def test_unlabeled_nodes_and_labels_of_all(start_daemon, graph, tmp_path):
    labels = graph.node_label.copy()
    labels[::3] = -1
    daemon = start_daemon()
    daemon.import_graph("planted", graph._replace(node_label=labels).write(tmp_path / "graph"))
    with hearth.Client(f"unix:{daemon.data_dir}/hearth.sock") as client:
        nodes = np.arange(200)
        for layout in ("pyg", "layers"):
            with NeighborLoader(client, **LOADER, input_nodes=nodes, shuffle=False, layout=layout,
                                strategy="gnndrive") as loader:
                for batch in loader:
                    assert batch.y.tolist() == labels[batch.n_id[:batch.batch_size]].tolist()
                    assert -1 in batch.y
        with NeighborLoader(client, **LOADER, labels="all") as loader:
            assert len(loader.dataset) == (labels[graph.train_idx] >= 0).sum()
            for batch in loader:
                assert batch.y.tolist() == labels[batch.n_id].tolist()
                assert (batch.y[:batch.batch_size] >= 0).all()


def test_typed_graphs_have_nodes_and_labels_of_the_target(start_daemon, typed_folder):
    graph = planted_heterograph()
    daemon = start_daemon()
    daemon.json("dataset", "import", "typed", "--source", str(typed_folder))
    papers = np.random.default_rng(2).permutation(len(graph.labels))[:100]
    options = {**LOADER, "dataset": "typed", "input_nodes": ("paper", papers), "labels": "all"}
    with hearth.Client(f"unix:{daemon.data_dir}/hearth.sock") as client:
        with NeighborLoader(client, **options) as loader:
            for batch in loader:
                paper = batch["paper"]
                assert paper.y.tolist() == graph.labels[paper.n_id].tolist()
                assert papers[paper.input_id].tolist() == paper.n_id[:paper.batch_size].tolist()
        with pytest.raises(hearth.InvalidRequest, match="'author', and the seeds of 'paper'"):
            NeighborLoader(client, **{**options, "input_nodes": ("author", [1])})
        # Authors have neither labels nor a split.
        authors = [7, 3, 5, 100]
        options = {**options, "target": "author", "input_nodes": ("author", authors)}
        for strategy in ("memory", "gnndrive"):
            with NeighborLoader(client, strategy=strategy, **options) as loader:
                (batch,) = loader
                author = batch["author"]
                found = author.n_id[:author.batch_size].tolist()
                assert sorted(found) == sorted(authors)
                assert [authors[place] for place in author.input_id] == found
                assert "y" not in author and "y" not in batch["paper"]
                assert loader.num_classes == 0
        with pytest.raises(hearth.HearthError, match='no training nodes of nodes of type "author"'):
            next(iter(NeighborLoader(client, **{**options, "input_nodes": None})))


def test_a_daemon_that_is_killed_finds_the_nodes_again(start_daemon, graph_folder, mine):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    with hearth.Client(f"unix:{daemon.data_dir}/hearth.sock") as client:
        expected = taken(client, epochs=1, input_nodes=mine)
        found = []
        with NeighborLoader(client, **LOADER, input_nodes=mine, strategy="gnndrive") as loader:
            for number, batch in enumerate(loader):
                if number == 3:
                    daemon.kill()
                    daemon.start()
                found.append(digest(batch))
            job = loader.job.id
        assert found == [one for _, _, one in expected[0]]
        daemon.wait_for_state(job, "SUCCEEDED")
        folder = daemon.data_dir / "jobs" / job
        assert list(folder.glob("nodes-*.npy"))
        client.delete(job)
        assert not folder.exists()
