"""Exported models in modules of PyTorch Geometric."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, TypeVar, Union

from hearth.packages import geometric, torch

Module = TypeVar("Module")
_FORMAT = "hearth-model-1"
_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
           "I64": "int64", "I32": "int32"}
# Layers of each model; the last models are for graphs of several types.
_LAYERS = {"sage": "SAGEConv", "gcn": "GCNConv", "gat": "GATConv", "gatv2": "GATv2Conv",
           "gin": "GINConv", "rgcn": "RGCNConv", "rsage": "HeteroConv", "rgat": "HeteroConv"}
_LONGEST_LIST = 8


class State(NamedTuple):
    """An exported model."""

    config: Mapping[str, Any]
    """config.json: model, in_channels, hidden_channels, out_channels, num_layers, heads, ..."""
    tensors: Mapping[str, Any]
    """Tensors by PyTorch Geometric's names: convs.0.lin_l.weight, ..."""


def read_state(folder: Union[str, os.PathLike[str]]) -> State:
    """Reads a folder that `Client.export` wrote: config.json and model.safetensors."""
    source = Path(folder)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    if config.get("format") != _FORMAT:
        raise ValueError(f"{source / 'config.json'}: the format is {config.get('format')!r}, "
                         f"not {_FORMAT}")
    return State(config, _read_tensors(source / "model.safetensors"))


def load_into(module: Module, model: Union[str, os.PathLike[str], State, Mapping[str, Any]]
              ) -> Module:
    """Copies an exported model into a module, and returns the module.

    `model` is a folder that `Client.export` wrote, a result of read_state, or tensors by name.
    The module has parameters of the same names (convs.0.lin_l.weight, as in
    torch_geometric.nn.GraphSAGE, GCN, GAT and GIN, or in HeteroConv in a list `convs`), or the
    same layers in the same order under any names. ValueError lists all names and shapes that do
    not fit; the module is then unchanged.
    """
    state = (model if isinstance(model, State) else
             read_state(model) if isinstance(model, (str, os.PathLike)) else State({}, model))
    target: Any = module
    own: dict[str, Any] = target.state_dict()
    tensors = _renamed(state, target, own)
    problems = [f"lacks {name}" for name in tensors if name not in own]
    problems += [f"has {name}, which the model lacks" for name in own if name not in tensors]
    problems += [f"{name} has shape {tuple(own[name].shape)}, in the model {tuple(values.shape)}"
                 for name, values in tensors.items()
                 if name in own and own[name].shape != values.shape]
    if problems:
        rest = len(problems) - _LONGEST_LIST
        raise ValueError(f"the model{_kind(state)} does not fit the {type(target).__name__}: it "
                         + "; it ".join(problems[:_LONGEST_LIST])
                         + (f"; and {rest} more" if rest > 0 else ""))
    target.load_state_dict(dict(tensors))
    return module


def _renamed(state: State, module: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors by the module's names: the same names, or names of its layers in order."""
    layers = _layers_of(module, state)
    _check_layers(state, layers)
    if any(name in own for name in state.tensors) or layers is None:
        return dict(state.tensors)
    renamed = {}
    for name, values in state.tensors.items():
        head, _, rest = name.partition(".")
        number, _, rest = rest.partition(".")
        if head == "convs" and number.isdigit() and int(number) < len(layers):
            prefix = list(layers)[int(number)]
            name = f"{prefix}.{rest}" if prefix else rest
        renamed[name] = values
    return renamed


def _layers_of(module: Any, state: State) -> Optional[dict[str, Any]]:
    """The outermost layers of a module by their names; None without a config, which tells the
    kind of the layers."""
    if not state.config:
        return None
    kinds = (geometric().nn.MessagePassing, geometric().nn.HeteroConv)
    found: dict[str, Any] = {}
    for name, one in module.named_modules():
        inside = any(other == "" or name.startswith(f"{other}.") for other in found)
        if isinstance(one, kinds) and not inside:
            found[name] = one
    return found


def _check_layers(state: State, layers: Optional[Mapping[str, Any]]) -> None:
    wanted = _LAYERS.get(str(state.config.get("model")))
    for name, layer in (layers or {}).items():
        if wanted is not None and type(layer).__name__ != wanted:
            raise ValueError(f"the model{_kind(state)} has layers {wanted}; "
                             f"{name or 'the module'} is a {type(layer).__name__}")
        aggregation = str(getattr(layer, "aggr", "mean"))
        if wanted == "SAGEConv" and aggregation != "mean":
            raise ValueError(f"the model{_kind(state)} takes means; {name or 'the module'} has "
                             f"aggr {aggregation!r}")
    count = state.config.get("num_layers")
    if layers and count is not None and len(layers) != count:
        raise ValueError(f"the model{_kind(state)} has {count} layers, the module {len(layers)}")


def _kind(state: State) -> str:
    return f" ({state.config['model']})" if "model" in state.config else ""


def _read_tensors(path: Path) -> dict[str, Any]:
    """A file of safetensors: the length of the header (u64), the header in JSON, the bytes."""
    content = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    if not 8 <= begin <= len(content):
        raise ValueError(f"{path}: the header ends at {begin} of {len(content)} bytes")
    header = json.loads(content[8:begin])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        dtype = getattr(torch(), _DTYPES[entry["dtype"]])
        first, last = (begin + offset for offset in entry["data_offsets"])
        count = math.prod(entry["shape"])
        if not begin <= first <= last <= len(content) or last - first != count * dtype.itemsize:
            raise ValueError(f"{path}: the bytes of {name} do not fit its shape {entry['shape']}")
        tensors[name] = (torch().frombuffer(content, dtype=dtype, count=count, offset=first)
                         .reshape(entry["shape"]).clone() if count else
                         torch().empty(entry["shape"], dtype=dtype))
    return tensors
