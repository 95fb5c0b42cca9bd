"""The reference models of graphs with several types, of ordinary PyG layers.

The tensors of `RelationalModel.state_dict()` are the contract of Hearth's
export, as those of pyg_models.Model are for graphs of one type:

    rgcn   proj.TYPE.{weight,bias} where the types' widths differ;
           convs.I.weight, convs.I.root, convs.I.bias, convs.I.comp with bases
    rsage  convs.I.convs.<SRC___REL___DST>.lin_l.{weight,bias}; lin.{weight,bias}
    rgat   convs.I.convs.<SRC___REL___DST>.lin.weight, or .lin_src.weight and
           .lin_dst.weight where widths differ, .att_src, .att_dst, .bias;
           lin.{weight,bias}
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch_geometric.nn import GATConv, HeteroConv, RGCNConv, SAGEConv
from torch_geometric.nn.module_dict import ModuleDict

MODELS = ("rgcn", "rsage", "rgat")
EdgeType = tuple[str, str, str]  # source, relation, destination


@dataclasses.dataclass(frozen=True)
class RelationalConfig:
    """What a model is built from; the fields of an export's `config.json`."""

    model: str
    in_channels: int  # of the widest node type
    hidden_channels: int
    out_channels: int
    num_layers: int
    node_types: list[dict]  # {"name", "in_channels"}
    edge_types: list[list[str]]  # source, relation, destination
    target: str
    heads: int = 0
    num_bases: int = 0
    dropout: float = 0.0
    task: str = "classification"

    def widths(self) -> dict[str, int]:
        return {entry["name"]: entry["in_channels"] for entry in self.node_types}

    def relations(self) -> list[EdgeType]:
        return [(source, name, destination) for source, name, destination in self.edge_types]


def new_model(config: RelationalConfig) -> torch.nn.Module:
    if config.model not in MODELS:
        raise ValueError(f"model {config.model!r} is none of {', '.join(MODELS)}")
    return Rgcn(config) if config.model == "rgcn" else Rgnn(config)


class Rgnn(torch.nn.Module):
    """rsage and rgat, the RGNN of MLPerf and IGBH.

    A layer gives rows to the destinations of its relations alone; relations of
    which an end has no rows have no part in it.
    """

    def __init__(self, config: RelationalConfig):
        super().__init__()
        self.config = config
        widths = config.widths()
        self.convs = torch.nn.ModuleList()
        for _ in range(config.num_layers):
            live = [key for key in config.relations() if key[0] in widths and key[2] in widths]
            self.convs.append(HeteroConv(
                {key: self._relation(widths[key[0]], widths[key[2]]) for key in live}, aggr="sum"))
            widths = {key[2]: config.hidden_channels for key in live}
        if config.target not in widths:
            raise ValueError(f"no edge type leads to {config.target}")
        self.lin = torch.nn.Linear(config.hidden_channels, config.out_channels)

    def _relation(self, source: int, destination: int) -> torch.nn.Module:
        hidden = self.config.hidden_channels
        if self.config.model == "rsage":
            return SAGEConv((source, destination), hidden, aggr="mean", root_weight=False)
        ends = source if source == destination else (source, destination)
        return GATConv(ends, hidden // self.config.heads, self.config.heads, add_self_loops=False)

    def forward(self, x: dict[str, Tensor], edges: dict[EdgeType, Tensor]) -> Tensor:
        for conv in self.convs:
            x = conv(x, {key: edges[key] for key in conv.convs.keys()})
            x = {name: torch.nn.functional.leaky_relu(rows) for name, rows in x.items()}
            x = {name: torch.nn.functional.dropout(rows, self.config.dropout, self.training)
                 for name, rows in x.items()}
        return self.lin(x[self.config.target])


class Rgcn(torch.nn.Module):
    """RGCNConv over all nodes in one numbering, type by type."""

    def __init__(self, config: RelationalConfig):
        super().__init__()
        self.config = config
        widths = config.widths()
        self.proj = None
        width = config.in_channels
        if len(set(widths.values())) > 1:
            self.proj = ModuleDict({name: torch.nn.Linear(columns, config.hidden_channels)
                                    for name, columns in widths.items()})
            width = config.hidden_channels
        self.convs = torch.nn.ModuleList()
        for index in range(config.num_layers):
            last = index == config.num_layers - 1
            out = config.out_channels if last else config.hidden_channels
            self.convs.append(RGCNConv(width, out, num_relations=len(config.edge_types),
                                       num_bases=config.num_bases or None))
            width = out

    def forward(self, x: dict[str, Tensor], edges: dict[EdgeType, Tensor]) -> Tensor:
        first, total = {}, 0
        for name in self.config.widths():
            first[name], total = total, total + len(x[name])
        rows = torch.cat([x[name] if self.proj is None else self.proj[name](x[name])
                          for name in first])
        ends, kinds = [], []
        for kind, key in enumerate(self.config.relations()):
            offsets = torch.tensor([[first[key[0]]], [first[key[2]]]])
            ends.append(edges[key] + offsets)
            kinds.append(torch.full((edges[key].shape[1],), kind))
        for conv in self.convs[:-1]:
            rows = conv(rows, torch.cat(ends, 1), torch.cat(kinds)).relu()
            rows = torch.nn.functional.dropout(rows, self.config.dropout, self.training)
        rows = self.convs[-1](rows, torch.cat(ends, 1), torch.cat(kinds))
        begin = first[self.config.target]
        return rows[begin : begin + len(x[self.config.target])]
