"""Tests that an export loads into PyG strictly, and that its logits are PyG's."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from neighbor_sampler import NeighborSampler
from pyg_load import full_graph_logits, load_and_compare, load_model, read_safetensors
from pyg_models import MODELS, Model, ModelConfig

NUM_NODES = 60
LAYER_TENSORS = {
    "sage": {"lin_l.weight": (8, 6), "lin_l.bias": (8,), "lin_r.weight": (8, 6)},
    "gcn": {"lin.weight": (8, 6), "bias": (8,)},
    "gat": {"lin.weight": (8, 6), "att_src": (1, 2, 4), "att_dst": (1, 2, 4), "bias": (8,)},
    "gatv2": {"lin_l.weight": (8, 6), "lin_l.bias": (8,), "lin_r.weight": (8, 6),
              "lin_r.bias": (8,), "att": (1, 2, 4), "bias": (8,)},
    "gin": {"nn.lins.0.weight": (8, 6), "nn.lins.0.bias": (8,), "nn.lins.1.weight": (8, 8),
            "nn.lins.1.bias": (8,), "eps": (1,)},
}


def make_model(name):
    torch.manual_seed(3)
    return Model(ModelConfig(name, 6, 8, 5, num_layers=3, heads=2, dropout=0.5))


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        begin, data = len(data), data + values.tobytes()
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps({"__metadata__": {"by": "test"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def export(model, folder, /, drop=(), **changed):
    """Writes what Hearth would; `drop` leaves tensors out, `changed` alters the config."""
    folder.mkdir(exist_ok=True)
    state = {name: values.numpy() for name, values in model.state_dict().items()}
    write_safetensors(folder / "model.safetensors",
                      {name: state[name] for name in state if name not in drop})
    config = {"format": "hearth-model-1", **dataclasses.asdict(model.config), **changed}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def arrays():
    random = np.random.default_rng(2)
    edges = np.unique(random.integers(0, NUM_NODES, size=(300, 2)), axis=0).T.copy()
    features = random.standard_normal((NUM_NODES, 6)).astype(np.float32)
    return {"edge_index": edges, "node_feat": features, "nodes": np.arange(5, 20)}


@pytest.mark.parametrize("name", MODELS)
def test_tensor_names_are_the_contract(name):
    state = make_model(name).state_dict()
    assert {key.split(".", 2)[2] for key in state} == set(LAYER_TENSORS[name])
    assert {key.split(".")[1] for key in state} == {"0", "1", "2"}
    for tensor, shape in LAYER_TENSORS[name].items():
        assert state[f"convs.0.{tensor}"].shape == shape


def test_last_layer_of_gat_averages_its_heads():
    state = make_model("gat").state_dict()
    assert state["convs.2.lin.weight"].shape == (10, 8)
    assert state["convs.2.att_src"].shape == (1, 2, 5)
    assert state["convs.2.bias"].shape == (5,)


@pytest.mark.parametrize("name", MODELS)
def test_round_trip_gives_equal_logits(name, arrays, tmp_path):
    model = make_model(name).eval()
    expected = full_graph_logits(model, arrays["edge_index"], arrays["node_feat"], arrays["nodes"])
    folder = export(model, tmp_path / "model")
    result = load_and_compare(folder, {**arrays, "logits": expected})
    assert result.logits.shape == (15, 5)
    assert result.max_difference == 0.0
    changed = load_and_compare(folder, {**arrays, "logits": expected + 0.5})
    assert changed.max_difference == pytest.approx(0.5, rel=1e-4)
    assert load_and_compare(folder, arrays).max_difference is None


@pytest.mark.parametrize("name", ["sage", "gat", "gatv2", "gin"])
def test_a_full_sample_gives_the_logits_of_the_full_graph(name, arrays):
    # GCN's normalisation looks one hop further than the sample, so it is left out.
    model = make_model(name).eval()
    sampler = NeighborSampler(arrays["edge_index"], NUM_NODES, seed=1)
    nodes, edges, _ = sampler.sample(arrays["nodes"], [-1, -1, -1])
    x = torch.from_numpy(arrays["node_feat"][nodes])
    sampled = model(x, torch.from_numpy(edges))[: len(arrays["nodes"])].detach().numpy()
    expected = full_graph_logits(model, arrays["edge_index"], arrays["node_feat"], arrays["nodes"])
    np.testing.assert_allclose(sampled, expected, atol=1e-5)


def test_a_missing_tensor_is_refused(tmp_path):
    folder = export(make_model("sage"), tmp_path, drop=("convs.1.lin_r.weight",))
    with pytest.raises(RuntimeError, match="Missing key.*convs.1.lin_r.weight"):
        load_model(folder)


def test_a_wrong_shape_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="size mismatch"):
        load_model(export(make_model("gcn"), tmp_path, out_channels=6))


def test_wrong_configs_are_refused(tmp_path):
    model = make_model("gcn")
    with pytest.raises(ValueError, match="format"):
        load_model(export(model, tmp_path, format="hearth-model-2"))
    with pytest.raises(ValueError, match="unknown fields.*colour"):
        load_model(export(model, tmp_path, colour="red"))
    with pytest.raises(ValueError, match="none of sage"):
        load_model(export(model, tmp_path, model="mlp"))


def test_damaged_safetensors_are_refused(tmp_path):
    path = export(make_model("gcn"), tmp_path) / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-4])
    with pytest.raises(ValueError, match="do not fit"):
        read_safetensors(path)
    path.write_bytes((10**9).to_bytes(8, "little") + content[8:])
    with pytest.raises(ValueError, match="header ends"):
        read_safetensors(path)


def test_bfloat16_is_widened(tmp_path):
    header = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "bf16.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\x80\x3f\x20\xc0")
    assert read_safetensors(path)["a"].tolist() == [1.0, -2.5]


def test_command_line(arrays, tmp_path):
    np.save(tmp_path / "edge_index.npy", arrays["edge_index"])
    np.save(tmp_path / "node_feat.npy", arrays["node_feat"])
    for name in ("node_label", "train_idx", "valid_idx", "test_idx"):
        np.save(tmp_path / f"{name}.npy", np.zeros(NUM_NODES, dtype=np.int64))
    folder = export(make_model("gat"), tmp_path / "model")
    output = tmp_path / "logits.npy"
    command = [sys.executable, str(Path(__file__).with_name("pyg_load.py")),
               "--model-dir", str(folder), "--data", str(tmp_path), "--output", str(output)]
    subprocess.run([*command, "--nodes", "5:20"], check=True)
    np.testing.assert_array_equal(np.load(output), load_and_compare(folder, arrays).logits)
    np.save(tmp_path / "other.npy", np.load(output) + 1)
    compare = ["--nodes", "5:20", "--compare", str(tmp_path / "other.npy")]
    failed = subprocess.run([*command, *compare], capture_output=True, text=True)
    assert (failed.returncode, "more than 0.0001" in failed.stderr) == (1, True)
