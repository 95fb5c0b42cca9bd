"""hearth.torch's layout "graphbolt": what models of DGL compute on it is what others do."""

from __future__ import annotations

import sys

import pytest

from test_torch_device import cuda  # noqa: F401
from test_torch_loader import (EDGE_TYPES, LAYERS, TRAIN, TYPES, Graph, hearth,  # noqa: F401
                               loader_of, same, start, torch)


@pytest.fixture
def dgl():
    pytest.importorskip("dgl.graphbolt", reason="dgl is not installed", exc_type=ImportError)
    return sys.modules["dgl"]


def mean(x, sources, destinations, size):
    """Of the sources of each destination."""
    sums = torch.zeros(size, x.shape[1]).index_add(0, destinations, x[sources])
    return sums / torch.bincount(destinations, minlength=size).clamp(min=1)[:, None]


def seeds_of(batch):
    return batch.seed_nodes if hasattr(batch, "seed_nodes") else batch.seeds


def edges(csc):
    degrees = csc.indptr.diff()
    return csc.indices, torch.repeat_interleave(torch.arange(len(degrees)), degrees)


def test_subgraphs_are_the_layers(start, dgl):  # noqa: F811
    feed, client = start()
    wanted = [batch.to("cpu") for batch in loader_of(client, layout="layers")]
    for number, batch in enumerate(loader_of(client, layout="graphbolt")):
        assert type(batch) is dgl.graphbolt.MiniBatch
        layers = wanted[number]
        x, own = layers.x, batch.node_features["feat"]
        for layer, subgraph in zip(layers.layers, batch.sampled_subgraphs):
            x = mean(x, *layer.edge_index, layer.size[1])
            own = mean(own, *edges(subgraph.sampled_csc), len(subgraph.sampled_csc.indptr) - 1)
            assert torch.equal(x, own)
            assert len(subgraph.original_row_node_ids) == layer.size[0]
            assert len(subgraph.original_column_node_ids) == layer.size[1]
        assert len(own) == layers.batch_size and batch.edge_features is None
        assert torch.equal(seeds_of(batch), layers.n_id[:layers.batch_size])
        assert torch.equal(batch.labels, layers.y) and batch.loss_scale == 1
        assert torch.equal(batch.input_nodes, layers.n_id)
        x = batch.node_features["feat"]
        for block in batch.to("cpu").blocks:
            x = dgl.nn.SAGEConv(x.shape[1], 3, "mean")(block, x)
        assert x.shape == (layers.batch_size, 3)
    assert number == 6 and feed.specs[0].data.HasField("neighbor")


def test_types_have_their_own_ids(start, dgl):  # noqa: F811
    feed, client = start(Graph(is_typed=True))
    for number, batch in enumerate(loader_of(client, layout="graphbolt")):
        arrays = feed.graph.batch(TRAIN, 0, number, LAYERS).arrays
        types, n_id = (arrays[name, None, None] for name in ("node_type", "n_id"))
        for i, (name, dim) in enumerate(TYPES):
            same(batch.node_features[name, "feat"], arrays["x", None, None][types == i, :dim])
            same(batch.input_nodes[name], n_id[types == i] - 1000 * i)
        same(batch.labels["paper"], arrays["y", None, None])
        same(seeds_of(batch)["paper"], n_id[:len(batch.labels["paper"])])
        for layer, subgraph in enumerate(batch.sampled_subgraphs):
            found = set()
            for i, kind in enumerate(EDGE_TYPES):
                names = kind.split(":")
                sources, destinations = edges(subgraph.sampled_csc[kind])
                rows = subgraph.original_row_node_ids[names[0]][sources]
                columns = subgraph.original_column_node_ids[names[2]][destinations]
                found |= {(i, *pair) for pair in zip(rows.tolist(), columns.tolist())}
            pairs = n_id[arrays["edge_index", None, layer]] % 1000
            assert found == set(zip(arrays["edge_type", None, layer].tolist(), *pairs.tolist()))
        assert len(batch.blocks) == 2
    assert number == 6


@pytest.mark.parametrize("is_typed", [False, True])
def test_the_stream_of_the_script_has_all_tensors(start, dgl, cuda, is_typed):  # noqa: F811
    cuda.is_eager = True
    handed = []
    cuda.hand_over = lambda self, event, tensors: handed.extend(
        one.untyped_storage().data_ptr() for one in tensors)
    _, client = start(Graph(is_typed=is_typed))

    def has(value):
        if isinstance(value, dict):
            return all(map(has, value.values()))
        return value.untyped_storage().data_ptr() in handed

    batch = next(iter(loader_of(client, layout="graphbolt", device="cuda")))
    for value in (batch.input_nodes, batch.labels, batch.node_features, seeds_of(batch)):
        assert has(value)
    for subgraph in batch.sampled_subgraphs:
        assert has(subgraph.original_row_node_ids) and has(subgraph.original_column_node_ids)
        csc = subgraph.sampled_csc
        for one in csc.values() if is_typed else [csc]:
            assert has(one.indptr) and has(one.indices)


@pytest.mark.parametrize("options, field", [({"sampler": "subgraph"}, "layout"),
                                            ({"labels": "all"}, "labels")])
def test_what_it_has_not_is_refused(start, monkeypatch, options, field):  # noqa: F811
    monkeypatch.setitem(sys.modules, "dgl.graphbolt", sys)
    feed, client = start()
    with pytest.raises(hearth.InvalidRequest) as refused:
        loader_of(client, layout="graphbolt", **options)
    assert refused.value.field == field and feed.specs == []


def test_without_dgl_it_is_named(start, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "dgl", None)
    monkeypatch.delitem(sys.modules, "dgl.graphbolt", raising=False)
    feed, client = start()
    with pytest.raises(ImportError, match="this needs dgl: pip install dgl"):
        loader_of(client, layout="graphbolt")
    assert feed.specs == []
