"""The stores and the sampler of PyG's remote backends, over a Backend. Imports torch_geometric."""

from __future__ import annotations

from typing import Any, NoReturn, Optional, Union

import torch
from torch_geometric.data import FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout
from torch_geometric.sampler import (BaseSampler, HeteroSamplerOutput, NodeSamplerInput,
                                     SamplerOutput)

from hearth.pyg.backend import Backend

_READ_ONLY = "datasets of the daemon do not change: import another one"


class Features(FeatureStore):
    """The features and labels of samples: x of all nodes of a sample, y of its seeds."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """x of each node type, and y of the seeds' type, without an index."""
        backend = self._backend
        attrs = [TensorAttr(kind.name, "x") for kind in backend.node_types]
        if backend.label_shape is not None:
            attrs.append(TensorAttr(backend.target.name, "y"))
        return attrs

    def _get_tensor(self, attr: TensorAttr) -> Any:
        kept = self._backend.kept(attr.index, attr.group_name)
        if kept is None:
            raise NotImplementedError(
                "values come with samples: the index must be the tensor of a sample's nodes (n_id "
                "of a batch, node of a sampler's output), as NodeLoader gives it; "
                "hearth.pyg.load_dataset reads a whole dataset")
        if kept.get(attr.attr_name) is None:
            raise KeyError(f"nodes of {attr.group_name} have no {attr.attr_name}")
        return kept[attr.attr_name]

    def _get_tensor_size(self, attr: TensorAttr) -> Optional[tuple[int, ...]]:
        backend = self._backend
        for kind in backend.node_types:
            if kind.name != attr.group_name:
                continue
            rows = kind.num_nodes if attr.index is None else len(attr.index)
            if attr.attr_name == "x":
                return rows, kind.feature_dim
            if attr.attr_name == "y" and kind == backend.target \
                    and backend.label_shape is not None:
                return (rows, *backend.label_shape)
        return None

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> NoReturn:
        raise NotImplementedError(_READ_ONLY)

    def _remove_tensor(self, attr: TensorAttr) -> NoReturn:
        raise NotImplementedError(_READ_ONLY)

    def __reduce__(self) -> NoReturn:
        _refuse_workers()


class Graph(GraphStore):
    """The edge types and their sizes. The edges stay with the daemon."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The edge types, with the numbers of their sources and destinations."""
        backend = self._backend
        counts = {kind.name: kind.num_nodes for kind in backend.node_types}
        return [EdgeAttr(kind, EdgeLayout.CSC,
                         size=tuple(counts[kind[i] if kind else None] for i in (0, -1)))
                for kind in backend.edge_types]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> NoReturn:
        raise NotImplementedError("the edges stay with the daemon, which samples: "
                                  "hearth.pyg.load_dataset reads a whole dataset")

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> NoReturn:
        raise NotImplementedError(_READ_ONLY)

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> NoReturn:
        raise NotImplementedError(_READ_ONLY)

    def __reduce__(self) -> NoReturn:
        _refuse_workers()


class Sampler(BaseSampler):
    """Asks the daemon for a sample, with its rows."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def close(self) -> None:
        """Ends the daemon's job if nothing else uses it. Tensors stay valid."""
        self._backend.close()

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any
                          ) -> Union[SamplerOutput, HeteroSamplerOutput]:
        """The subgraph of the seeds `index.node`, which are its first nodes. Raises HearthError,
        with the code INVALID_ARGUMENT for seeds that are no nodes, come twice or are too many."""
        if torch.utils.data.get_worker_info() is not None:
            _refuse_workers()
        if index.time is not None:
            raise NotImplementedError("datasets have no times")
        backend = self._backend
        batch = backend.sample(backend.seeds(index.node, index.input_type))
        counts = {name: batch[name] for name in ("num_sampled_nodes", "num_sampled_edges")}
        metadata = index.input_id, index.time
        if not backend.is_typed:
            row, col = batch["edge_index"]
            backend.keep(batch["n_id"], None, {"x": batch["x"], "y": batch["y"]})
            return SamplerOutput(batch["n_id"], row, col, edge=None, metadata=metadata, **counts)
        target = backend.target.name
        for kind, nodes in batch["n_id"].items():
            backend.keep(nodes, kind, {"x": batch["x"][kind],
                                       "y": batch["y"] if kind == target else None})
        edges = batch["edge_index"]
        return HeteroSamplerOutput(
            batch["n_id"], {kind: edges[kind][0] for kind in edges},
            {kind: edges[kind][1] for kind in edges}, edge=dict.fromkeys(edges),
            metadata=metadata, **counts)

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> NoReturn:
        raise NotImplementedError("the daemon samples nodes, not edges")

    def __reduce__(self) -> NoReturn:
        _refuse_workers()


def _refuse_workers() -> NoReturn:
    raise RuntimeError("the daemon's samples cannot be taken in worker processes, nor can its "
                       "stores be pickled: num_workers must be 0")
