"""The reference models: stacks of ordinary PyG layers.

ReLU and dropout stand between layers. The tensors of `Model.state_dict()` are
the contract of Hearth's export, format `hearth-model-1`:

    sage   convs.I.lin_l.{weight,bias}, convs.I.lin_r.weight
    gcn    convs.I.lin.weight, convs.I.bias
    gat    convs.I.lin.weight, convs.I.att_src, convs.I.att_dst, convs.I.bias
    gatv2  convs.I.lin_{l,r}.{weight,bias}, convs.I.att, convs.I.bias
    gin    convs.I.nn.lins.{0,1}.{weight,bias}, convs.I.eps
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch_geometric.nn import MLP, GATConv, GATv2Conv, GCNConv, GINConv, SAGEConv

MODELS = ("sage", "gcn", "gat", "gatv2", "gin")
ATTENTION = {"gat": GATConv, "gatv2": GATv2Conv}
TASKS = ("classification", "multi_label_classification", "regression")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """What a model is built from; the fields of an export's `config.json`."""

    model: str
    in_channels: int
    hidden_channels: int  # of all heads together
    out_channels: int
    num_layers: int
    heads: int = 1  # of gat and gatv2; the others ignore it
    dropout: float = 0.0
    task: str = "classification"  # changes the loss alone

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"model {self.model!r} is none of {', '.join(MODELS)}")
        if self.task not in TASKS:
            raise ValueError(f"task {self.task!r} is none of {', '.join(TASKS)}")
        if self.num_layers < 1:
            raise ValueError(f"num_layers is {self.num_layers}, and must be at least 1")
        if self.model in ATTENTION and (self.heads < 1 or self.hidden_channels % self.heads):
            raise ValueError(f"{self.hidden_channels} hidden channels are not divisible "
                             f"by {self.heads} heads")


class Model(torch.nn.Module):
    """The rows of the result are those of `x`; after sampling, take the first ones."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.convs = torch.nn.ModuleList(
            _make_layer(config, index) for index in range(config.num_layers)
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs[:-1]:
            x = conv(x, edge_index).relu()
            x = torch.nn.functional.dropout(x, self.config.dropout, self.training)
        return self.convs[-1](x, edge_index)


def _make_layer(config: ModelConfig, index: int) -> torch.nn.Module:
    last = index == config.num_layers - 1
    width_in = config.in_channels if index == 0 else config.hidden_channels
    width_out = config.out_channels if last else config.hidden_channels
    if config.model == "sage":
        return SAGEConv(width_in, width_out, aggr="mean")
    if config.model == "gcn":
        return GCNConv(width_in, width_out)
    if config.model == "gin":  # as torch_geometric.nn.models.GIN has it
        return GINConv(MLP([width_in, width_out, width_out], act="relu", norm=None))
    attention = ATTENTION[config.model]
    if last:  # the heads of the last layer are averaged, those of the others concatenated
        return attention(width_in, width_out, heads=config.heads, concat=False)
    return attention(width_in, width_out // config.heads, heads=config.heads, concat=True)
