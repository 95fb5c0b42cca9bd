"""hearth.pyg with the real daemon: datasets out and in, and exported models in PyG's modules."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from heterographs import planted_heterograph
from jobs import QUICK

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
pytest.importorskip("grpc", reason="grpcio is not installed")
sys.path.append(str(Path(__file__).parents[2] / "client/python"))
sys.path.append(str(Path(__file__).parents[1] / "accuracy"))

from torch_geometric import nn  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402

import hearth  # noqa: E402
import hearth.pyg  # noqa: E402
from stored import StoredDataset  # noqa: E402

FIXTURES = Path(__file__).resolve().parents[1] / "importers" / "fixtures"
TYPED = ("train", "--strategy", "memory", "--fanouts", "5,5", "--hidden", "16", "--batch-size",
         "256", "--epochs", "1", "--dropout", "0")


@pytest.fixture(scope="module")
def client(daemon):
    with hearth.Client(daemon.address) as made:
        yield made


@pytest.fixture(scope="module")
def typed(daemon, tmp_path_factory):
    graph = planted_heterograph()
    folder = graph.write(tmp_path_factory.mktemp("typed") / "graph")
    daemon.json("dataset", "import", "typed", "--source", str(folder))
    return graph


def edges_of(index):
    """As a set: a dataset keeps edges by destination."""
    return set(map(tuple, np.asarray(index).T.tolist()))


def test_a_dataset_is_loaded(client, graph):
    data = hearth.pyg.load_dataset(client, "planted")
    assert isinstance(data, Data)
    np.testing.assert_array_equal(data.x, graph.node_feat)
    np.testing.assert_array_equal(data.y, graph.node_label)
    assert edges_of(data.edge_index) == edges_of(graph.edge_index)
    for mask, ids in ((data.train_mask, graph.train_idx), (data.val_mask, graph.valid_idx),
                      (data.test_mask, graph.test_idx)):
        np.testing.assert_array_equal(mask.nonzero().flatten(), ids)


def test_a_dataset_of_several_types_is_loaded(client, typed, tmp_path):
    data = hearth.pyg.load_dataset(client, "typed", tmp_path / "kept")
    assert isinstance(data, HeteroData) and (tmp_path / "kept" / "metadata.yaml").exists()
    assert set(data.edge_types) == set(typed.edges)
    for kinds, edges in typed.edges.items():
        assert edges_of(data[kinds].edge_index) == edges_of(edges)
    for kind, rows in typed.features.items():
        assert data[kind].x.numpy().dtype == rows.dtype
        np.testing.assert_array_equal(data[kind].x, rows)
    np.testing.assert_array_equal(data["paper"].y, typed.labels)
    np.testing.assert_array_equal(data["paper"].val_mask.nonzero().flatten(),
                                  typed.parts["validation_set"])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int64"])
def test_data_come_back_as_they_were(client, dtype):
    data = hearth.pyg.load_dataset(client, "planted")
    data.x = (data.x * 8).to(getattr(torch, dtype))
    dataset = hearth.pyg.import_data(client, f"again-{dtype}", data)
    stored = dtype if dtype in ("float16", "bfloat16") else "float32"
    assert dataset.node_types[0].feature_dtype == stored
    back = hearth.pyg.load_dataset(client, dataset.name)
    assert back.x.dtype == getattr(torch, stored)
    torch.testing.assert_close(back.x, data.x.to(back.x.dtype), rtol=0, atol=0)
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(back[name], data[name])
    assert edges_of(back.edge_index) == edges_of(data.edge_index)


def test_data_of_several_types_come_back_and_train(daemon, client, typed):
    data = hearth.pyg.load_dataset(client, "typed")
    data["author"].x = data["author"].x.to(torch.bfloat16)
    data["paper"].y[:100] = -1
    data["paper"].train_mask[:100] = data["paper"].val_mask[:100] = False
    data["paper"].test_mask[:100] = False
    hearth.pyg.import_data(client, "typed-again", data)
    back = hearth.pyg.load_dataset(client, "typed-again")
    assert back["author"].x.dtype == torch.bfloat16 and back["venue"].x.dtype == torch.float32
    for kind in data.node_types:
        assert torch.equal(back[kind].x, data[kind].x)
    assert torch.equal(back["paper"].y, data["paper"].y)
    assert torch.equal(back["paper"].train_mask, data["paper"].train_mask)
    for kinds in data.edge_types:
        assert edges_of(back[kinds].edge_index) == edges_of(data[kinds].edge_index)
    report = client.result(client.train(dataset="typed-again", model="rsage", fanouts=[5, 5],
                                        hidden=16, epochs=1).id)
    assert report.test_metric > 0


def test_types_without_features_are_filled(client, typed):
    data = hearth.pyg.load_dataset(client, "typed")
    del data["venue"].x
    data["venue"].num_nodes = 30
    dataset = hearth.pyg.import_data(client, "filled", data, fill_features="mean")
    (venue,) = (one for one in dataset.node_types if one.name == "venue")
    assert (venue.num_nodes, venue.feature_dim) == (30, 32)


@pytest.mark.parametrize("labels, kind, width", [
    (lambda y: torch.nn.functional.one_hot(y, 4), "multi-label", 4),
    (lambda y: y.float() / 3, "targets", 1), (lambda y: y.unsqueeze(1), "classes", 4)])
def test_kinds_of_labels(client, labels, kind, width):
    data = hearth.pyg.load_dataset(client, "planted")
    data.y = labels(data.y)
    nodes = hearth.pyg.import_data(client, f"labels-{kind}", data).node_types[0]
    assert (nodes.label_kind, nodes.label_width) == (kind, width)


def test_features_that_stay_where_they_lie(client, tmp_path):
    data = hearth.pyg.load_dataset(client, "planted")
    with pytest.raises(ValueError, match="give folder="):
        hearth.pyg.import_data(client, "in-place", data, in_place=True)
    dataset = hearth.pyg.import_data(client, "in-place", data, tmp_path / "kept", in_place=True)
    assert dataset.node_types[0].feature_path == str(tmp_path / "kept" / "node_feat.npy")


def test_several_labels_of_several_types(client, typed):
    data = hearth.pyg.load_dataset(client, "typed")
    data["paper"].y = torch.nn.functional.one_hot(data["paper"].y, 4)
    dataset = hearth.pyg.import_data(client, "typed-labels", data, labels="multi-label")
    (paper,) = (one for one in dataset.node_types if one.name == "paper")
    assert (paper.label_kind, paper.label_width) == ("multi-label", 4)


def test_a_graphbolt_dataset_on_disk(daemon, client):
    source = FIXTURES / "graphbolt_heterogeneous" / "dataset"
    dataset = hearth.pyg.import_data(client, "toy", source, self_loops="keep")
    assert {one.name for one in dataset.node_types} == {"paper", "author", "institution"}
    assert StoredDataset(daemon.data_dir, "toy").nodes["paper"]["num_nodes"] == 24


@pytest.mark.parametrize("change, words", [
    (lambda data: data.pop("x"), "have no x"), (lambda data: data.pop("y"), "have no y"),
    (lambda data: data.pop("val_mask"), "val_mask is not a mask of the 3000 nodes"),
    (lambda data: data.update({"train_mask": torch.zeros(3000, 2, dtype=torch.bool)}),
     r"train_mask is not a mask of the 3000 nodes: it is torch.bool of shape \(3000, 2\)"),
    (lambda data: data.update({"edge_index": torch.zeros(3, 5)}), r"not a tensor of shape \(2, E\)"),
    (lambda data: data.update({"y": torch.zeros(7)}), "a row for each of the 3000 nodes"),
    (lambda data: data.update({"x": torch.zeros(3000)}), "x is not a dense matrix")])
def test_data_that_cannot_be_imported(client, graph, change, words):
    values = {"x": torch.from_numpy(graph.node_feat), "y": torch.from_numpy(graph.node_label),
              "edge_index": torch.from_numpy(graph.edge_index), "num_nodes": 3000}
    for name in ("train_mask", "val_mask", "test_mask"):
        values[name] = torch.ones(3000, dtype=torch.bool)
    change(values)
    before = len(client.jobs())
    with pytest.raises(ValueError, match=words):
        hearth.pyg.import_data(client, "never", Data(**values))
    assert len(client.jobs()) == before


@pytest.fixture(scope="module")
def exported(daemon, client, typed, tmp_path_factory):
    """Folders of exported models, by their kind."""
    made = {}

    def export(kind):
        if kind not in made:
            is_typed = kind.startswith("r")
            options = ((*TYPED, "--dataset", "typed") if is_typed else
                       (*QUICK, "--fanouts", "-1,-1", "--epochs", "1", "--dropout", "0"))
            heads = ("--heads", "2") if "gat" in kind else ()
            job = daemon.json(*options, "--model", kind, *heads)["id"]
            made[kind] = client.export(job, tmp_path_factory.mktemp("models") / kind)
        return made[kind]
    return export


MODULES = {
    "sage": lambda: nn.GraphSAGE(32, 32, 2, 4),
    "gcn": lambda: nn.GCN(32, 32, 2, 4),
    "gat": lambda: nn.GAT(32, 32, 2, 4, heads=2),
    "gatv2": lambda: nn.GAT(32, 32, 2, 4, heads=2, v2=True),
    "gin": lambda: nn.GIN(32, 32, 2, 4, norm=None),
}


@pytest.mark.parametrize("kind", list(MODULES))
def test_models_fit_the_modules_of_pyg(exported, graph, pyg_logits, kind):
    module = MODULES[kind]()
    assert hearth.pyg.load_into(module, exported(kind)) is module
    nodes = graph.test_idx[:50]
    with torch.no_grad():
        scores = module.eval()(torch.from_numpy(graph.node_feat),
                               torch.from_numpy(graph.edge_index))[nodes]
    np.testing.assert_allclose(scores, pyg_logits(Path(exported(kind)), nodes), atol=1e-4)


class TwoLayers(torch.nn.Module):
    """As people write them: layers under names of their own."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.second = layer(32, 32), layer(32, 4)


@pytest.mark.parametrize("kind, layer", [
    ("sage", nn.SAGEConv), ("gcn", nn.GCNConv),
    ("gin", lambda a, b: nn.GINConv(nn.MLP([a, b, b], act="relu", norm=None)))])
def test_layers_by_their_order(exported, kind, layer):
    state = hearth.pyg.read_state(exported(kind))
    module = hearth.pyg.load_into(TwoLayers(layer), state)
    loaded = module.state_dict()
    assert len(loaded) == len(state.tensors)
    for name, values in state.tensors.items():
        _, number, rest = name.split(".", 2)
        assert torch.equal(loaded[f"{('first', 'second')[int(number)]}.{rest}"], values)


@pytest.mark.parametrize("kind", ["rgcn", "rsage", "rgat"])
def test_models_of_several_types(exported, kind):
    from pyg_load import read_config
    from pyg_relational_models import new_model
    folder = Path(exported(kind))
    module = hearth.pyg.load_into(new_model(read_config(folder / "config.json")), folder)
    state = hearth.pyg.read_state(folder)
    assert state.config["model"] == kind
    assert all(torch.equal(values, state.tensors[name])
               for name, values in module.state_dict().items())


@pytest.mark.parametrize("module, words", [
    (lambda: nn.GraphSAGE(32, 16, 2, 4), r"convs.0.lin_l.weight has shape \(16, 32\), in the model "
                                         r"\(32, 32\)"),
    (lambda: nn.GraphSAGE(32, 32, 3, 4), "has 2 layers, the module 3"),
    (lambda: nn.GCN(32, 32, 2, 4), "has layers SAGEConv; convs.0 is a GCNConv"),
    (lambda: nn.GraphSAGE(32, 32, 2, 4, aggr="max"), "takes means; convs.0 has aggr 'max'"),
    (lambda: nn.GraphSAGE(32, 32, 2, 4, norm="batch"), "has norms.0.module.weight, which the model"),
    (lambda: torch.nn.Linear(3, 4), "lacks convs.0.lin_l.weight")])
def test_modules_that_do_not_fit_stay_as_they_were(exported, module, words):
    made = module()
    before = {name: values.clone() for name, values in made.state_dict().items()}
    with pytest.raises(ValueError, match=words):
        hearth.pyg.load_into(made, exported("sage"))
    assert all(torch.equal(values, before[name]) for name, values in made.state_dict().items())


def test_damaged_exports(exported, tmp_path):
    source = Path(exported("sage"))
    (tmp_path / "config.json").write_text((source / "config.json").read_text())
    content = (source / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:-4])
    with pytest.raises(ValueError, match="the bytes of .* do not fit its shape"):
        hearth.pyg.read_state(tmp_path)
    (tmp_path / "config.json").write_text('{"format": "other"}')
    with pytest.raises(ValueError, match="the format is 'other', not hearth-model-1"):
        hearth.pyg.read_state(tmp_path)
