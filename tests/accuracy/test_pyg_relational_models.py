"""Tests of the relational models, and that the reference made from them is fresh."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pyg_load import load_model
from pyg_relational_models import RelationalConfig, Rgnn, new_model
from relational_reference import examples
from test_pyg_load import export

REFERENCE = Path(__file__).parents[2] / "engine/model/layers/relational_reference.json"
WIDTHS = {"a": 3, "b": 5}


def config(model, edge_types, layers=2, target="a"):
    nodes = [{"name": name, "in_channels": width} for name, width in WIDTHS.items()]
    return RelationalConfig(model, 5, 8, 4, layers, nodes, edge_types, target, heads=2)


def flat(value):
    if isinstance(value, dict):
        return [entry for key in value for entry in [key, *flat(value[key])]]
    return [entry for item in value for entry in flat(item)] if isinstance(value, list) else [value]


def test_the_reference_is_what_the_models_compute():
    committed, computed = flat(json.loads(REFERENCE.read_text())), flat(examples())
    assert len(committed) == len(computed)
    for old, new in zip(committed, computed):
        assert old == (pytest.approx(new, abs=1e-6) if isinstance(new, float) else new)


def test_types_without_edges_in_drop_out_of_later_layers():
    edges = [["b", "r", "a"], ["a", "s", "a"]]
    names = new_model(config("rsage", edges)).state_dict()
    assert "convs.0.convs.<b___r___a>.lin_l.weight" in names
    assert "convs.1.convs.<b___r___a>.lin_l.weight" not in names
    assert "convs.1.convs.<a___s___a>.lin_l.weight" in names
    with pytest.raises(ValueError, match="leads to b"):
        Rgnn(config("rgat", edges, target="b"))


@pytest.mark.parametrize("name", ["rgcn", "rsage", "rgat"])
def test_exports_load_strictly(tmp_path, name):
    model = new_model(config(name, [["a", "r", "a"], ["b", "s", "a"], ["a", "t", "b"]]))
    loaded = load_model(export(model, tmp_path / "model")).state_dict()
    for key, values in model.state_dict().items():
        np.testing.assert_array_equal(loaded[key], values)
    with pytest.raises(RuntimeError, match="Missing key"):
        load_model(export(model, tmp_path / "less", drop=("convs.0.bias", "lin.bias")))
    assert isinstance(load_model(tmp_path / "model"), torch.nn.Module)
