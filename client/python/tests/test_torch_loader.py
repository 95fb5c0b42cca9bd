"""hearth.torch: batches of a daemon's feed, their layouts and their memory."""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")
pytest.importorskip("numpy", reason="numpy is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

import numpy  # noqa: E402

import hearth  # noqa: E402
import hearth.torch  # noqa: E402
from fake_feed import EDGE_TYPES, TYPES, FakeFeed, Graph  # noqa: E402
from hearth.torch import NeighborLoader  # noqa: E402
from hearth.torch.batches import Arrays, made  # noqa: E402
from hearth.torch.slots import Loan  # noqa: E402
from hearth.v1 import feeds_pb2, jobs_pb2  # noqa: E402

TRAIN, VALID = feeds_pb2.FEED_TRAIN, feeds_pb2.FEED_VALID
LAYERS = feeds_pb2.FEED_LAYERS


@pytest.fixture
def start(tmp_path):
    """Starts a daemon with a graph; returns it and a client."""
    started = []

    def with_graph(graph=None, credits=4, **more):
        feed = FakeFeed(tmp_path, graph, credits, **more)
        client = hearth.Client(feed.address, watch_patience=20)
        started.append((feed, client))
        return feed, client

    yield with_graph
    for feed, client in started:
        gc.collect()
        client.close()
        feed.stop()


def loader_of(client, **more):
    return NeighborLoader(client, **{"dataset": "papers", "num_neighbors": [3, 2],
                                     "batch_size": 4, **more})


def same(tensor, values):
    assert tuple(tensor.shape) == values.shape
    assert numpy.array_equal(tensor.numpy(), values)
    return True


def wait_until(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


def code_of_child(loader, iterator, kept):
    """The exit code of a child of fork() that asks for batches, lets those in the list `kept` go
    and closes the loader; 0: it was told why it has none."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            list(iterator)
        except RuntimeError as error:
            code = 0 if "make the loader after the fork" in str(error) else 2
            kept.clear()
            loader.close()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_batches_are_data_of_pyg(start):
    feed, client = start()
    with loader_of(client) as loader:
        assert len(loader) == 7 and len(loader.dataset) == 27 and loader.batch_size == 4
        assert loader.num_features == 6 and loader.num_classes == feed.graph.welcome(4).label_width
        for epoch in range(2):
            for number, batch in enumerate(loader):
                wanted = feed.graph.batch(TRAIN, epoch, number)
                for name in ("x", "edge_index", "y", "n_id", "in_degrees", "input_id"):
                    same(batch[name], wanted.arrays[name, None, None])
                assert batch.batch_size == wanted.seeds == len(batch.y)
                assert sum(batch.num_sampled_nodes) == batch.num_nodes == len(batch.n_id)
                assert batch.num_sampled_edges == [7, 7] and batch.loss_scale == 1
                assert (batch.x.dtype, batch.edge_index.dtype) == (torch.float32, torch.int64)
            assert number == 6
    spec, = feed.specs
    assert list(spec.data.subgraph.fanouts) == [3, 2] and spec.data.batch_size == 4
    wait_until(lambda: feed.messages("bye"))


def test_a_model_trains_and_trimming_changes_nothing(start):
    from torch_geometric.nn import SAGEConv
    from torch_geometric.utils import trim_to_layer
    feed, client = start()
    convs = [SAGEConv(6, 8), SAGEConv(8, 5)]

    def outputs(batch, trims):
        x, edges = batch.x, batch.edge_index
        for i, conv in enumerate(convs):
            if trims:
                x, edges, _ = trim_to_layer(i, batch.num_sampled_nodes, batch.num_sampled_edges,
                                            x, edges)
            x = conv(x, edges).relu()
        return x[:batch.batch_size]

    with loader_of(client) as loader:
        for batch in loader:
            torch.nn.functional.cross_entropy(outputs(batch, False), batch.y).backward()
            # The second hop's edges end at nodes of the first.
            assert outputs(batch, True).shape == (batch.batch_size, 5)
    assert convs[0].lin_l.weight.grad.abs().sum() > 0


def test_hetero_data_have_values_by_type(start):
    feed, client = start(Graph(is_typed=True))
    with loader_of(client, num_neighbors={("author", "writes", "paper"): [3, 2],
                                          "cites": [2, 0]}) as loader:
        for number, batch in enumerate(loader):
            wanted = feed.graph.batch(TRAIN, 0, number).arrays
            for i, (name, dim) in enumerate(TYPES):
                same(batch[name].x, wanted["x", None, None][wanted["rows", i, None], :dim])
                same(batch[name].n_id, wanted["n_id", i, None])
                same(batch[name].in_degrees, wanted["in_degrees", i, None])
                assert sum(batch.num_sampled_nodes_dict[name]) == batch[name].num_nodes
            for i, name in enumerate(EDGE_TYPES):
                same(batch[tuple(name.split(":"))].edge_index, wanted["edge_index", i, None])
            assert set(batch.num_sampled_edges_dict) == set(batch.edge_types)
            same(batch["paper"].y, wanted["y", 0, None])
            assert batch["paper"].batch_size == len(batch["paper"].y)
            assert "y" not in batch["author"] and "rows" not in batch["paper"]
    assert feed.specs[0].data.subgraph.fanouts_of == "author:writes:paper=3,2;cites=2,0"
    assert list(feed.specs[0].data.subgraph.fanouts) == [3, 2]


def test_typed_batches_train_and_trim(start):
    from torch_geometric.nn import HeteroConv, SAGEConv
    from torch_geometric.utils import trim_to_layer
    _, client = start(Graph(is_typed=True))
    kinds = [tuple(name.split(":")) for name in EDGE_TYPES]
    convs = [HeteroConv({kind: SAGEConv((-1, -1), 8) for kind in kinds}) for _ in range(2)]
    with loader_of(client) as loader:
        batch = next(iter(loader))
        x, edges = batch.x_dict, batch.edge_index_dict
        for i, conv in enumerate(convs):
            x, edges, _ = trim_to_layer(i, batch.num_sampled_nodes_dict,
                                        batch.num_sampled_edges_dict, x, edges)
            x = {**x, **conv(x, edges)}
        assert x["paper"].shape[1] == 8


def test_several_relations_of_one_node_type():
    arrays = Arrays(feeds_pb2.FeedBatch(
        num_seeds=1, num_sampled_nodes=[{"counts": [1, 1]}],
        num_sampled_edges=[{"type": 1, "counts": [1]}],
        arrays=[{"name": "x", "type": "FLOAT32", "slot": 1, "shape": [2, 1]},
                {"name": "n_id", "type": "INT64", "slot": 1, "shape": [2]},
                {"name": "edge_index", "type": "INT64", "slot": 1, "shape": [2, 0], "of_type": 0},
                {"name": "edge_index", "type": "INT64", "slot": 1, "shape": [2, 1],
                 "of_type": 1}]), {1: (memoryview(bytearray(16)), Loan(1, None, (0, 0), 0))},
        lambda values: values.clone())
    batch = made("pyg", arrays, feeds_pb2.FeedWelcome(
        node_types=[{"feature_dim": 1}], edge_types=["n:a:n", "n:b:n"]))
    assert batch.x_dict["n"].shape == (2, 1) and len(batch.edge_types) == 2
    assert batch["n"].batch_size == 1 and "y" not in batch["n"]
    assert batch["n", "a", "n"].num_sampled_edges == [0]


def test_layers(start):
    feed, client = start()
    with loader_of(client, layout="layers") as loader:
        for number, batch in enumerate(loader):
            wanted = feed.graph.batch(TRAIN, 0, number, LAYERS).arrays
            for name in ("x", "n_id", "in_degrees", "y"):
                same(getattr(batch, name), wanted[name, None, None])
            for i, layer in enumerate(batch.layers):
                same(layer.edge_index, wanted["edge_index", None, i])
            assert batch.layers[0].size[0] == len(batch.x)
            assert batch.layers[-1].size[1] == batch.batch_size
            assert batch.to("cpu").layers[0].size == batch.layers[0].size
    assert feed.specs[0].data.HasField("neighbor")


@pytest.mark.parametrize("is_typed, layout", [(False, "pyg"), (True, "pyg"), (False, "layers"),
                                              (True, "tensors")])
def test_the_loss_has_a_factor(start, is_typed, layout):
    feed, client = start(Graph(is_typed=is_typed))
    feed.loss_scale = 0.75
    batch = next(iter(loader_of(client, layout=layout)))
    assert (batch["loss_scale"] if layout == "tensors" else batch.loss_scale) == 0.75
    assert layout == "tensors" or batch.to("cpu").loss_scale == 0.75


@pytest.mark.parametrize("is_typed, sampler", [(False, "subgraph"), (True, "subgraph"),
                                               (False, "neighbor")])
def test_dicts_of_tensors(start, is_typed, sampler):
    feed, client = start(Graph(is_typed=is_typed))
    with loader_of(client, layout="tensors", sampler=sampler) as loader:
        batch = next(iter(loader))
        assert isinstance(batch, dict) and batch["batch_size"] == 4
        if sampler == "neighbor":
            assert [layer["size"] for layer in batch["layers"]] == [(13, 8), (8, 4)]
        elif is_typed:
            assert batch["x"]["author"].shape == (6, 4)
            assert set(batch["edge_index"]) == {tuple(name.split(":")) for name in EDGE_TYPES}
        else:
            wanted = feed.graph.batch(TRAIN, 0, 0).arrays
            same(batch["x"], wanted["x", None, None])


def test_loaders_with_equal_options_are_one_job(start):
    feed, client = start()
    loaders = [loader_of(client, split=split) for split in ("train", "valid", "test")]
    assert [len(list(loader)) for loader in loaders] == [7, 3, 2]
    assert len(feed.specs) == 1
    for loader in loaders[:2]:
        loader.close()
    assert feed.messages("bye") == []
    del loaders[2], loader
    wait_until(lambda: feed.messages("bye"))


def test_nested_loaders_go_on_where_they_were_stopped(start):
    feed, client = start()
    train, valid = loader_of(client), loader_of(client, split="valid")
    for number, batch in enumerate(train):
        same(batch.x, feed.graph.batch(TRAIN, 0, number).arrays["x", None, None])
        for inner, one in enumerate(valid):
            same(one.x, feed.graph.batch(VALID, 0, inner).arrays["x", None, None])
        assert inner == 2
        same(batch.x, feed.graph.batch(TRAIN, 0, number).arrays["x", None, None])
    assert number == 6
    opens = [one for one in feed.messages("open") if one.split == TRAIN]
    assert [one.first_batch for one in opens] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_break_leaves_the_pass_and_iter_is_the_next_epoch(start):
    feed, client = start()
    loader = loader_of(client)
    for batch in loader:
        break
    wait_until(lambda: feed.messages("close"))
    first = iter(loader)
    same(next(first).x, feed.graph.batch(TRAIN, 1, 0).arrays["x", None, None])
    second = iter(loader)
    assert list(first) == []
    same(next(second).x, feed.graph.batch(TRAIN, 2, 0).arrays["x", None, None])
    loader.set_epoch(40)
    same(next(iter(loader)).x, feed.graph.batch(TRAIN, 40, 0).arrays["x", None, None])


def test_drop_last_and_transform(start):
    _, client = start()
    loader = loader_of(client, drop_last=True, transform=lambda batch: batch.batch_size)
    assert len(loader) == 6 and list(loader) == [4] * 6
    assert loader.state_dict()["epoch"] == 1


def test_an_exception_in_transform_is_the_scripts(start):
    feed, client = start()

    def transform(batch):
        raise KeyError("mine")

    loader = loader_of(client, transform=transform)
    with pytest.raises(KeyError, match="mine"):
        list(loader)
    loader.transform = None
    assert len(list(loader)) == 7


def test_the_curve_and_the_seconds_are_told(start):
    feed, client = start()
    with loader_of(client) as loader:
        loader.report(1, loss=0.5, metric=torch.tensor(0.75))
        loader.report(2, loss=0.25)
        with pytest.raises(hearth.InvalidRequest, match="epoch: 0"):
            loader.report(0, loss=1)
        with pytest.raises(hearth.InvalidRequest, match="'f1' is not one of accuracy, "):
            loader.report(3, loss=1, metric=0.5, metric_name="f1")
        list(loader)
    wait_until(lambda: feed.messages("bye"))
    one, two = feed.messages("epoch")
    assert (one.epoch, one.loss, one.metric, one.valid_metric) == (1, 0.5, "accuracy", 0.75)
    assert not two.HasField("valid_metric")
    assert sum(told.wait for told in feed.messages("seconds")) > 0


def test_pickles_hold_options(start):
    _, client = start()
    loader = loader_of(client)
    next(iter(loader))
    again = pickle.loads(pickle.dumps(loader))
    assert again.split == "train" and again.batch_size == 4
    assert again.state_dict()["next_batch"] == 1
    with pytest.raises(RuntimeError, match="a copy without a client"):
        iter(again)
    loader.close()
    with pytest.raises(RuntimeError, match="is closed"):
        len(loader)


def nodes_in(spec):
    return {one.split: (one.count, one.sha256) for one in spec.nodes}


def test_nodes_take_the_place_of_a_split(start):
    feed, client = start(Graph(is_typed=True))
    mask = torch.zeros(1000, dtype=torch.bool)
    mask[[3, 5, 900]] = True
    for split, shuffle, given, ids in [
            ("train", None, torch.tensor([7, 2, 900]), [7, 2, 900]),
            ("train", True, numpy.array([4, 1], dtype=numpy.int32), [4, 1]),
            ("valid", False, [9], [9]), ("valid", False, mask, [3, 5, 900]),
            ("valid", False, ("paper", mask.numpy()), [3, 5, 900]),
            ("train", None, ("paper", torch.tensor([1, 0])), [1, 0])]:
        with loader_of(client, input_nodes=given, shuffle=shuffle) as loader:
            assert loader.split == split
            assert loader.job.id == f"feed-{len(feed.specs)}"
        sent = numpy.array(ids, dtype="<i8").tobytes()
        digest = hashlib.sha256(sent).hexdigest()
        assert nodes_in(feed.specs[-1]) == {split: (len(ids), digest)}
        assert feed.nodes[-1] == (loader_id(feed), digest, sent)
    with loader_of(client, input_nodes=("paper", None)) as loader:
        assert loader.job and not feed.specs[-1].nodes
    with loader_of(client, input_nodes=[1, 2], split="test") as loader:
        assert loader.job and list(nodes_in(feed.specs[-1])) == ["test"]


def loader_id(feed):
    return f"feed-{len(feed.specs)}"


def test_loaders_with_nodes_share_a_job_until_it_is_submitted(start):
    feed, client = start()
    train = loader_of(client, input_nodes=[1, 2])
    again = loader_of(client, input_nodes=torch.tensor([1, 2]))
    valid = loader_of(client, input_nodes=[4, 3], shuffle=False)
    others = loader_of(client, input_nodes=[2, 1])
    whole = loader_of(client, split="test")
    assert train.job.id == again.job.id == valid.job.id == "feed-1"
    assert sorted(nodes_in(feed.specs[0])) == ["train", "valid"]
    # The newest feed that may still take it.
    assert whole.job.id == others.job.id == "feed-2"
    assert sorted(nodes_in(feed.specs[1])) == ["train"]
    # Decided: the dataset's own validation nodes are those of the second job.
    late = loader_of(client, split="valid")
    assert late.job.id == "feed-2"
    own = loader_of(client, split="valid", input_nodes=[8])
    assert own.job.id == "feed-3"


def test_nodes_are_sent_again_after_a_break(start):
    feed, client = start()
    loader = loader_of(client, input_nodes=[1, 2])
    batches = iter(loader)
    next(batches)
    feed.kill()
    feed.start()
    assert len(list(batches)) == 6
    assert len(feed.nodes) == 2 and feed.nodes[0] == feed.nodes[1]


def test_nodes_that_are_refused_end_the_job(start):
    feed, client = start()
    feed.refused_nodes = "ids[1]: 5 is there twice"
    loader = loader_of(client, input_nodes=[5, 5])
    with pytest.raises(hearth.InvalidRequest, match=r"ids\[1\]: 5 is there twice"):
        next(iter(loader))
    assert feed.job.state == jobs_pb2.CANCELLED


def test_a_state_is_of_the_nodes_of_its_loader(start):
    _, client = start()
    state = loader_of(client, input_nodes=[1, 2]).state_dict()
    loader_of(client, input_nodes=[1, 2]).load_state_dict(state)
    with pytest.raises(ValueError, match="input_nodes was 2 nodes of SHA-256 .*, and is 2 nodes"):
        loader_of(client, input_nodes=[2, 1]).load_state_dict(state)
    with pytest.raises(ValueError, match="input_nodes was 2 nodes .*, and is not given"):
        loader_of(client).load_state_dict(state)
    # Those of another loader of its job do not matter.
    plain = loader_of(client, batch_size=5, split="valid").state_dict()
    loader_of(client, batch_size=5, input_nodes=[1])
    loader_of(client, batch_size=5, split="valid").load_state_dict(plain)


def test_labels_of_all_nodes_are_asked_for(start):
    feed, client = start()
    for labels in ("seeds", "all"):
        with loader_of(client, labels=labels) as loader:
            next(iter(loader))
    assert [one.all_labels for one in feed.messages("open")] == [False, True]


@pytest.mark.parametrize("options, field, words", [
    ({"split": "val"}, "split", "train, valid, test"),
    ({"layout": "dgl"}, "layout", "pyg, layers, graphbolt, tensors"),
    ({"layout": "pyg", "sampler": "neighbor"}, "layout", "needs the sampler subgraph"),
    ({"labels": "some"}, "labels", "not one of seeds, all"),
    ({"shuffle": False}, "shuffle", "shuffled anew"),
    ({"shuffle": True, "split": "test"}, "shuffle", "in order"),
    ({"input_nodes": []}, "input_nodes", "no node"),
    ({"input_nodes": [0.5]}, "input_nodes", "whole numbers"),
    ({"input_nodes": ["a"]}, "input_nodes", "neither ids nor a mask"),
    ({"input_nodes": torch.zeros(2, 2)}, "input_nodes", "2 dimensions"),
    ({"input_nodes": torch.ones(3, dtype=torch.bool)}, "input_nodes", "the type has 1000"),
    ({"input_nodes": ("author", [1])}, "input_nodes", "of type 'author'"),
    ({"input_nodes": [1], "shuffle": False, "split": "train"}, "shuffle", "shuffled anew"),
    ({"trainers": 2}, "trainers", "world_size"),
    ({"world_size": 2}, "world_size", "init_process_group comes first"),
    ({"daemon_options": {}}, "daemon_options", "for a path"), ({"dataset": None}, "dataset", "needed"),
    ({"disjoint": True}, "disjoint", "share"), ({"replace": True}, "replace", "without"),
    ({"weight_attr": "w"}, "weight_attr", "uniformly"), ({"time_attr": "t"}, "time_attr", "times"),
    ({"subgraph_type": "induced"}, "subgraph_type", "directional"),
    ({"filter_per_worker": True}, "filter_per_worker", "workers"),
    ({"batch_siz": 4}, "batch_siz", "did you mean batch_size?"),
    ({"lr": 0.1}, "lr", "is not an option"),
    ({"num_neighbors": {"cites": [1], "writes": [1, 2]}}, "num_neighbors", "each layer"),
])
def test_what_cannot_be_is_refused_by_name(start, options, field, words):
    feed, client = start()
    with pytest.raises(hearth.InvalidRequest) as refused:
        loader_of(client, **options)
    assert refused.value.field == field and words in str(refused.value)
    assert feed.specs == []


def test_arguments_of_workers_do_nothing(start):
    feed, client = start()
    loader = loader_of(client, num_workers=4, persistent_workers=True, prefetch_factor=2,
                       replace=False, shuffle=True, input_nodes=None, worker_init_fn=print)
    assert len(list(loader)) == 7 and feed.specs[0].credits == 3


def test_an_iterator_that_nobody_asks_is_no_epoch(start):
    feed, client = start()
    loader = loader_of(client)
    iter(loader), iter(loader)
    assert loader.state_dict()["epoch"] == 0
    same(next(iter(loader)).x, feed.graph.batch(TRAIN, 0, 0).arrays["x", None, None])
    same(next(iter(loader)).x, feed.graph.batch(TRAIN, 1, 0).arrays["x", None, None])


def test_a_client_for_asyncio_is_refused():
    with pytest.raises(TypeError, match="AsyncClient is not a hearth.Client, nor a path"):
        loader_of(hearth.AsyncClient("127.0.0.1:1"))


@pytest.mark.parametrize("example, is_typed, words", [
    ("sage.py", False, "epoch 2: loss"), ("rgat_hetero.py", True, "epoch 2: loss"),
    ("sage_lightning.py", False, "`max_epochs=2` reached"
     if importlib.util.find_spec("lightning") else "skipped: lightning is not installed")])
def test_examples(start, tmp_path, example, is_typed, words):
    feed, _ = start(Graph(is_typed=is_typed))
    done = subprocess.run(
        [sys.executable, Path(__file__).parents[1] / "examples" / example, "papers",
         "--epochs", "2"], env={**os.environ, "HEARTH_SERVER": feed.address}, timeout=200,
        cwd=tmp_path, capture_output=True, text=True)
    assert words in done.stdout + done.stderr
    if not words.startswith("skipped"):
        trained = [one[1:] for one in feed.sent if one[0] == "train"]
        assert [number for epoch, number in trained if epoch == 1] == list(range(7))
        assert max(trained) == (1, 6)
