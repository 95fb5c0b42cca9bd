"""Datasets of the daemon as Data and HeteroData, and back, by folders that both can read."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from hearth.packages import geometric, numpy, torch

if TYPE_CHECKING:  # Folders are written and read without grpcio.
    from hearth.client import Client, Dataset
    from hearth.graphs import DatasetRecord
    from hearth.options.values import Value

AnyPath = Union[str, os.PathLike[str]]
MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
_SETS = {"train": "train_set", "valid": "validation_set", "test": "test_set"}
_DTYPES = ("float32", "float16", "bfloat16")


def load_dataset(client: Client, name: str, folder: Optional[AnyPath] = None) -> Any:
    """A dataset as Data, or as HeteroData if it has several types of nodes or edges: x, y,
    edge_index, train_mask, val_mask and test_mask.

    The daemon writes it to `folder`, which must not exist yet and is kept, or to a temporary
    folder, and this program reads it there: both must see it. Everything is in memory then.
    """
    torch(), geometric()
    dataset = client.dataset(name)
    with ExitStack() as temporary:
        if folder is None:
            parent = temporary.enter_context(tempfile.TemporaryDirectory(prefix="hearth-pyg-"))
            folder = Path(parent) / "dataset"
        written = Path(client.export_dataset(name, folder))
        if not written.is_dir():
            raise FileNotFoundError(
                f"hearthd at {client.server} wrote {written} on its machine, where this program "
                "sees no such folder: give one that both see as folder=")
        return read_folder(written, dataset)


def import_data(client: Client, name: str, data: Any, folder: Optional[AnyPath] = None,
                **options: Value) -> Dataset:
    """Makes a dataset of Data, of HeteroData, or of a GraphBolt dataset on disk (its folder).

    Data are written to `folder`, which must not exist yet and is kept, or to a temporary folder,
    which the daemon must be able to read. Options are the flags of `hearth dataset import`
    (fill_features="mean" for types of nodes without x, undirected=True, ...). Features stay
    float32, float16 or bfloat16, other numbers become float32; masks become the split; y of whole
    numbers are classes (-1: unlabeled), of numbers targets, and of several columns what the
    importer takes them for, or labels= says. The logger `hearth` warns of attributes that are
    left out, such as edge_attr.
    """
    if isinstance(data, (str, os.PathLike)):
        found: dict[str, Any] = {"format": "graphbolt"}
        return client.import_dataset(name, data, **{**found, **options})
    if options.get("in_place") and folder is None:
        raise ValueError("features that stay where they lie need a place: give folder=")
    with ExitStack() as temporary:
        if folder is None:
            parent = temporary.enter_context(tempfile.TemporaryDirectory(prefix="hearth-pyg-"))
            folder = Path(parent) / "data"
        found = dict(write_folder(data, folder))
        unused = left_out(data)
        if unused:
            logging.getLogger("hearth").warning("dataset %s is made without %s", name,
                                                ", ".join(unused))
        return client.import_dataset(name, folder, **{**found, **options})


def write_folder(data: Any, folder: AnyPath) -> dict[str, Value]:
    """Writes Data as a numpy folder, or HeteroData as a GraphBolt folder, which must not exist
    yet; returns the options with which it is to be imported."""
    torch()
    target = Path(folder)
    target.mkdir(parents=True)
    return fill_folder(data, target)


def fill_folder(data: Any, folder: Path, all_parts: bool = True) -> dict[str, Value]:
    """As write_folder, into an empty folder. Without `all_parts`, parts of the split that have no
    mask are left out, except that one node type has a mask of training."""
    if isinstance(data, geometric().data.HeteroData):
        return _write_hetero(data, folder, all_parts)
    return _write_homogeneous(data, folder, all_parts)


def stores_of(data: Any) -> list[Any]:
    """Holders of the nodes' attributes: Data itself, or HeteroData's stores of node types."""
    is_hetero = isinstance(data, geometric().data.HeteroData)
    return [data[kind] for kind in data.node_types] if is_hetero else [data]


def left_out(data: Any) -> list[str]:
    """Names of the attributes that datasets cannot hold (edge_attr, pos, ...), sorted, since
    PyTorch Geometric's own order differs from process to process."""
    taken = {"x", "y", "num_nodes", "edge_index", *MASKS.values()}
    if not isinstance(data, geometric().data.HeteroData):
        return sorted(key for key in data.keys() if key not in taken)
    kinds = [*data.node_types, *data.edge_types]
    return [f"{key} of {kind if isinstance(kind, str) else ':'.join(kind)}"
            for kind in kinds for key in sorted(data[kind].keys()) if key not in taken]


def read_folder(folder: AnyPath, dataset: Optional[DatasetRecord] = None) -> Any:
    """Data or HeteroData of a folder that an export of a dataset wrote, in format numpy or
    graphbolt. `dataset` tells which features are bfloat16, for which numpy has no type."""
    source = Path(folder)
    if (source / "metadata.yaml").exists():
        return _read_graphbolt(source)
    dtype = dataset.node_types[0].feature_dtype if dataset is not None else ""
    data = geometric().data.Data(x=_features(source / "node_feat.npy", dtype),
                                 y=_tensor(source / "node_label.npy"),
                                 edge_index=_read_edges(source))
    for part, mask in MASKS.items():
        data[mask] = _mask(_tensor(source / f"{part}_idx.npy"), data.num_nodes)
    return data


def _read_edges(folder: Path) -> Any:
    """The edges of a numpy folder: as they are, or of the in-neighbors of each node."""
    if (folder / "edge_index.npy").exists():
        return _tensor(folder / "edge_index.npy").long()
    indptr, indices = _tensor(folder / "indptr.npy"), _tensor(folder / "indices.npy").long()
    degrees = indptr.long().diff()
    destinations = torch().repeat_interleave(torch().arange(len(degrees)), degrees)
    return torch().stack([indices, destinations])


def _read_graphbolt(folder: Path) -> Any:
    # The daemon writes JSON, which is YAML.
    text = json.loads((folder / "metadata.yaml").read_text(encoding="utf-8"))
    is_typed = "type" in text["graph"]["nodes"][0]
    data = geometric().data.HeteroData() if is_typed else geometric().data.Data()

    def nodes_of(entry: dict[str, Any]) -> Any:
        return data[entry["type"]] if is_typed else data

    for entry in text["graph"]["nodes"]:
        nodes_of(entry).num_nodes = entry["num"]
    for entry in text["graph"]["edges"]:
        edges = data[tuple(entry["type"].split(":"))] if is_typed else data
        edges.edge_index = _tensor(folder / entry["path"]).long()
    for entry in text["feature_data"]:
        path = folder / entry["path"]
        value = (torch().load(path, weights_only=True) if entry["format"] == "torch"
                 else _tensor(path))
        nodes_of(entry)["y" if entry["name"] == "label" else "x"] = value
    for part, name in _SETS.items():
        for entry in text["tasks"][0].get(name, []):
            (seeds,) = (one["path"] for one in entry["data"] if one["name"] == "seeds")
            nodes = nodes_of(entry)
            nodes[MASKS[part]] = _mask(_tensor(folder / seeds), nodes.num_nodes)
    return data


def _write_homogeneous(data: Any, folder: Path, all_parts: bool) -> dict[str, Value]:
    for name in ("x", "edge_index", "y"):
        if data.get(name) is None:
            raise ValueError(f"the data have no {name}")
    is_bfloat16 = _write_features(data.x, folder / "node_feat.npy", "x")
    _save(folder / "edge_index.npy", _edges(data.edge_index, "edge_index"))
    _save(folder / "node_label.npy", _labels(data.y, data.num_nodes, "y"))
    split = _split(data, data.num_nodes, "the data", all_parts)
    if "train" not in split:
        raise ValueError("the data have no train_mask")
    for part, ids in split.items():
        _save(folder / f"{part}_idx.npy", ids)
    return _import_options("numpy", is_bfloat16, data.y)


def _write_hetero(data: Any, folder: Path, all_parts: bool) -> dict[str, Value]:
    nodes: list[Any] = []
    features: list[Any] = []
    sets: dict[str, list[Any]] = {name: [] for name in _SETS.values()}
    labeled: list[Any] = []
    is_bfloat16 = False
    for i, kind in enumerate(data.node_types):
        store = data[kind]
        if store.num_nodes is None:
            raise ValueError(f'nodes of type "{kind}" have no number: set num_nodes')
        nodes.append({"type": kind, "num": int(store.num_nodes)})
        if store.get("x") is not None:
            is_bfloat16 |= _write_features(store.x, folder / f"x{i}.npy", f'x of "{kind}"')
            features.append(_array(f"x{i}.npy", domain="node", type=kind, name="feat"))
        if store.get("y") is not None:
            labels = _labels(store.y, store.num_nodes, f'y of "{kind}"')
            _save(folder / f"y{i}.npy", labels)
            features.append(_array(f"y{i}.npy", domain="node", type=kind, name="label"))
            labeled.append(store.y)
            split = _split(store, store.num_nodes, f'nodes of type "{kind}"', all_parts)
            for part, ids in split.items():
                _save(folder / f"{part}{i}.npy", ids)
                _save(folder / f"{part}{i}_labels.npy", labels[ids])
                sets[_SETS[part]].append({"type": kind, "data": [
                    _array(f"{part}{i}.npy", name="seeds"),
                    _array(f"{part}{i}_labels.npy", name="labels")]})
    if not labeled:
        raise ValueError("no node type has y: there is nothing to train for")
    if not sets["train_set"]:
        raise ValueError("no node type has y and a train_mask")
    edges = []
    for i, kinds in enumerate(data.edge_types):
        _save(folder / f"edges{i}.npy", _edges(data[kinds].edge_index, f"edges {kinds}"))
        edges.append(_array(f"edges{i}.npy", type=":".join(kinds)))
    metadata = {"graph": {"nodes": nodes, "edges": edges}, "feature_data": features,
                "tasks": [{"name": "node_classification", **sets}]}
    (folder / "metadata.yaml").write_text(json.dumps(metadata, indent=1), encoding="utf-8")
    return _import_options("graphbolt", is_bfloat16, labeled[0])


def _import_options(format: str, is_bfloat16: bool, labels: Any) -> dict[str, Value]:
    options: dict[str, Value] = {"format": format}
    if is_bfloat16:
        options["bfloat16"] = True
    if labels.is_floating_point() and labels.squeeze(-1).dim() == 1:
        options["labels"] = "targets"
    return options


def _array(path: str, **more: str) -> dict[str, str]:
    return {**more, "format": "numpy", "path": path}


def _write_features(values: Any, path: Path, what: str) -> bool:
    """Writes a matrix; returns whether it is of bfloat16, for which numpy has no type."""
    if not torch().is_tensor(values) or values.is_sparse or values.dim() != 2:
        raise ValueError(f"{what} is not a dense matrix")
    if str(values.dtype).removeprefix("torch.") not in _DTYPES:
        values = values.float()
    is_bfloat16 = bool(values.dtype == torch().bfloat16)
    if is_bfloat16:
        values = values.view(torch().int16)
    array = values.detach().cpu().contiguous().numpy()
    numpy().save(path, array.view("uint16") if is_bfloat16 else array)
    return is_bfloat16


def _edges(index: Any, what: str) -> Any:
    if not torch().is_tensor(index) or index.dim() != 2 or index.shape[0] != 2:
        raise ValueError(f"{what} is not a tensor of shape (2, E)")
    return index.cpu().long().numpy()


def _labels(values: Any, num_nodes: int, what: str) -> Any:
    if not torch().is_tensor(values) or values.dim() not in (1, 2) or len(values) != num_nodes:
        raise ValueError(f"{what} has not a row for each of the {num_nodes} nodes")
    values = values.squeeze(-1) if values.dim() == 2 and values.shape[1] == 1 else values
    array = values.detach().cpu()
    return array.float().numpy() if array.is_floating_point() else array.long().numpy()


def _split(store: Any, num_nodes: int, what: str, all_parts: bool) -> dict[str, Any]:
    split = {}
    for part, name in MASKS.items():
        mask = store.get(name)
        if mask is None and not all_parts:
            continue
        if mask is None or mask.dtype != torch().bool or tuple(mask.shape) != (num_nodes,):
            raise ValueError(f"{what}: {name} is not a mask of the {num_nodes} nodes"
                             + ("" if mask is None else
                                f": it is {mask.dtype} of shape {tuple(mask.shape)}"))
        split[part] = mask.nonzero().flatten().cpu().numpy()
    return split


def _mask(ids: Any, num_nodes: int) -> Any:
    mask = torch().zeros(num_nodes, dtype=torch().bool)
    mask[ids.long()] = True
    return mask


def _features(path: Path, dtype: str) -> Any:
    array = numpy().load(path)
    if dtype == "bfloat16" and array.dtype == "uint16":
        return torch().from_numpy(array.view("int16")).view(torch().bfloat16)
    return torch().from_numpy(array)


def _tensor(path: Path) -> Any:
    return torch().from_numpy(numpy().load(path))


def _save(path: Path, array: Any) -> None:
    numpy().save(path, array)
