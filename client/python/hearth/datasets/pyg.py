"""Converts a graph saved by PyTorch Geometric, or by numpy, into a folder that Hearth imports.

    python3 -m hearth.datasets.pyg --data data.pt --output FOLDER
    python3 -m hearth.datasets.pyg --data roman_empire.npz --mask 0 --output FOLDER

- `.pt` is written by torch.save: Data, HeteroData, a dictionary of their attributes, or
  the `processed/data.pt` of a dataset of one graph. Code that its pickle names is not
  run (weights_only); a file that needs code is refused, unless --trust-pickle says that
  its author may run programs here.
- `.npz` is written by numpy.savez, with arrays of these names, or a graph as scipy's
  CSR matrices (adj_data, adj_indices, adj_indptr, adj_shape, and attr_... likewise):
  edges    edge_index, edges: (2, E) or (E, 2), sources first
  features x, features, feat, feature, node_features, node_feat, attr_matrix
  labels   y, labels, label, node_labels, node_label
  split    train_mask(s), val_mask(s), test_mask(s), or train_idx, val_idx, test_idx
- Masks of several columns are several splits: --mask N takes one, from 0. Without masks
  --split-seed N draws 60/20/20 of the labeled nodes.

Data become a numpy folder, HeteroData the raw folder of a GraphBolt OnDiskDataset.
Attributes that neither can hold (edge_attr, pos, ...) are left out and listed. The graph is
in memory meanwhile. The folder appears complete or not at all. Needs torch and torch_geometric.
"""

from __future__ import annotations

import argparse
import contextlib
import pickle
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

from hearth.datasets import manifest as manifests
from hearth.datasets.atomic_folder import atomic_folder
from hearth.datasets.manifest import ConversionError
from hearth.pyg.exchange import MASKS, fill_folder, left_out, stores_of
from hearth.packages import geometric, torch

FORMAT = "hearth-pyg-1"

_ARRAYS = {
    "x": ("x", "features", "feat", "feature", "node_features", "node_feat", "attr_matrix"),
    "edge_index": ("edge_index", "edges"),
    "y": ("y", "labels", "label", "node_labels", "node_label"),
    "train_mask": ("train_mask", "train_masks"),
    "val_mask": ("val_mask", "val_masks", "valid_mask", "valid_masks"),
    "test_mask": ("test_mask", "test_masks"),
}
_INDICES = {
    "train_mask": ("train_idx", "idx_train"),
    "val_mask": ("val_idx", "valid_idx", "idx_val", "idx_valid"),
    "test_mask": ("test_idx", "idx_test"),
}
_CSR = ("data", "indices", "indptr", "shape")


class Choices(NamedTuple):
    """A user's choices about a file."""

    mask: Optional[int] = None
    split_seed: Optional[int] = None
    trust_pickle: bool = False


def read_data(path: Path, choices: Choices) -> Any:
    """The Data or HeteroData of a file. Raises ConversionError for any other file."""
    if path.suffix == ".npz":
        data = _read_npz(path)
    elif path.suffix in (".pt", ".pth"):
        data = _read_torch(path, choices.trust_pickle)
    else:
        raise ConversionError(f"{path}: not named .pt, .pth or .npz")
    for store in stores_of(data):
        _settle_store(path, store, choices)
    return data


def convert(path: Path, output: Path, choices: Choices) -> dict[str, Any]:
    """Makes `output`, or replaces it if this converter made it. Returns the options with which it
    is to be imported, and the names of attributes that were left out."""
    if manifests.read(output, "hearth-pyg-") is None:
        manifests.refuse_foreign(output, "converted from a saved graph")
    data = read_data(path, choices)
    with atomic_folder(output) as folder:
        try:
            options = fill_folder(data, folder, all_parts=False)
        except ValueError as error:
            raise ConversionError(f"{path}: {error}") from error
        found = {"options": options, "left_out": left_out(data)}
        manifests.write(folder, {"format": FORMAT, "name": path.name,
                                 "bytes": path.stat().st_size, "mask": choices.mask,
                                 "split_seed": choices.split_seed}, found)
    return found


def _read_torch(path: Path, trust: bool) -> Any:
    try:
        with _known_classes():
            saved = torch().load(path, map_location="cpu", weights_only=not trust)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, AttributeError,
            ImportError, zipfile.BadZipFile) as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        if named is None:
            raise ConversionError(f"{path}: is not what torch.save writes: {_brief(error)}"
                                  ) from error
        raise ConversionError(
            f"{path}: its pickle names {named[1]}, which might run anything: if the file comes "
            "from somebody who may run programs here, --trust-pickle reads it") from error
    return _as_data(path, saved)


def _known_classes() -> contextlib.AbstractContextManager[Any]:
    """Lets torch make the parts of Data and HeteroData, which hold attributes and nothing else."""
    data = geometric().data
    allow = getattr(torch().serialization, "safe_globals", None)
    if allow is None:  # Before torch 2.5.
        return contextlib.nullcontext()
    parts = [getattr(module, name, None)
             for module, names in ((data.data, ("DataEdgeAttr", "DataTensorAttr")),
                                   (data.storage, ("BaseStorage", "NodeStorage", "EdgeStorage",
                                                   "GlobalStorage")),
                                   (data.graph_store, ("EdgeAttr", "EdgeLayout")),
                                   (data.feature_store, ("TensorAttr", "_FieldStatus")))
             for name in names]
    context: contextlib.AbstractContextManager[Any] = allow(
        [data.Data, data.HeteroData, *(part for part in parts if part is not None)])
    return context


def _as_data(path: Path, saved: Any) -> Any:
    kinds = geometric().data
    if isinstance(saved, (tuple, list)) and saved:
        # A dataset in memory: the graphs end to end, and where each begins.
        if len(saved) > 1 and isinstance(saved[1], Mapping):
            _check_single(path, saved[1])
        elif len(saved) > 1 and saved[1] is not None:
            raise ConversionError(f"{path}: holds a list of {len(saved)}; one graph is converted")
        saved = saved[0]
    if isinstance(saved, Mapping):
        is_typed = any(isinstance(value, Mapping) for value in saved.values())
        saved = (kinds.HeteroData if is_typed else kinds.Data).from_dict(dict(saved))
    if not isinstance(saved, (kinds.Data, kinds.HeteroData)):
        raise ConversionError(f"{path}: holds a {type(saved).__name__}, not Data or HeteroData")
    if isinstance(saved, kinds.Data) and saved.get("edge_index") is None and "adj_t" in saved:
        raise ConversionError(f"{path}: has adj_t in place of edge_index: save it without "
                              "ToSparseTensor")
    return saved


def _check_single(path: Path, slices: Mapping[Any, Any]) -> None:
    for one in slices.values():
        count = (_count(next(iter(one.values()), None)) if isinstance(one, Mapping)
                 else _count(one))
        if count > 1:
            raise ConversionError(f"{path}: holds {count} graphs; one is converted")


def _count(slices: Any) -> int:
    return 0 if slices is None else len(slices) - 1


def _read_npz(path: Path) -> Any:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = _arrays_of(path, arrays)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise ConversionError(f"{path}: {_brief(error)}") from error
    return geometric().data.Data.from_dict(
        {name: torch().from_numpy(np.ascontiguousarray(array)) for name, array in found.items()})


def _arrays_of(path: Path, arrays: Any) -> dict[str, Any]:
    """The arrays of a graph by their names in Data; other arrays by their own names."""
    found: dict[str, Any] = {}
    used: set[str] = set()
    for name, others in _ARRAYS.items():
        key = next((other for other in others if other in arrays), None)
        if key is not None:
            found[name] = arrays[key]
            used.add(key)
    for name, prefix in (("edge_index", "adj"), ("x", "attr")):
        keys = [f"{prefix}_{part}" for part in _CSR]
        if name not in found and all(key in arrays for key in keys):
            found[name] = _edges_of(arrays, keys) if prefix == "adj" else _dense(arrays, keys)
            used.update(keys)
    edges = found.get("edge_index")
    if edges is not None and edges.ndim == 2 and edges.shape[0] != 2 and edges.shape[1] == 2:
        found["edge_index"] = edges.T
    if "x" not in found or found["x"].ndim not in (1, 2):
        raise ConversionError(f"{path}: has no matrix of features: {', '.join(_ARRAYS['x'])} "
                              "or attr_data, ...")
    for name, others in _INDICES.items():
        key = next((other for other in others if other in arrays), None)
        if name not in found and key is not None:
            found[name] = np.zeros(len(found["x"]), bool)
            found[name][arrays[key]] = True
            used.add(key)
    # Only names: the arrays may hold objects, which are not read.
    found.update({key: np.zeros(0) for key in arrays.files if key not in used})
    return found


def _edges_of(arrays: Any, keys: Sequence[str]) -> Any:
    """The edges of a CSR matrix: rows are sources."""
    _, indices, indptr, _ = (arrays[key] for key in keys)
    rows = np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))
    if len(rows) != len(indices):
        raise ValueError(f"{keys[2]} ends with {len(rows)}, {keys[1]} has {len(indices)}")
    return np.stack([rows, indices.astype(np.int64)])


def _dense(arrays: Any, keys: Sequence[str]) -> Any:
    values, _, _, shape = (arrays[key] for key in keys)
    rows, columns = _edges_of(arrays, keys)
    matrix = np.zeros(tuple(int(size) for size in shape), np.float32)
    if len(rows) and (rows.max() >= len(matrix) or columns.min() < 0
                      or columns.max() >= matrix.shape[1]):
        raise ValueError(f"{keys[1]} is out of the range of {keys[3]}")
    np.add.at(matrix, (rows, columns), values)
    return matrix


def _settle_store(path: Path, store: Any, choices: Choices) -> None:
    """Makes features dense, and masks boolean with one column; draws a split if one is asked
    for."""
    if store.get("x") is not None and store["x"].layout != torch().strided:
        store["x"] = store["x"].to_dense()
    masks = {part: store.get(name) for part, name in MASKS.items()
             if store.get(name) is not None}
    for part, mask in masks.items():
        if mask.dim() == 2:
            if choices.mask is None:
                raise ConversionError(f"{path}: {MASKS[part]} has {mask.shape[1]} columns, a split "
                                      "each: take one with --mask N, from 0")
            if not 0 <= choices.mask < min(mask.shape):
                raise ConversionError(f"{path}: --mask {choices.mask}: there are "
                                      f"{min(mask.shape)}, from 0")
            # Some files have a row for each split.
            is_transposed = mask.shape[0] < mask.shape[1]
            mask = mask[choices.mask] if is_transposed else mask[:, choices.mask]
        if mask.dtype != torch().bool:
            if not bool(((mask == 0) | (mask == 1)).all()):
                raise ConversionError(f"{path}: {MASKS[part]} has values other than 0 and 1")
            mask = mask != 0
        store[MASKS[part]] = mask
    labels = store.get("y")
    if masks or labels is None or choices.split_seed is None:
        return
    labeled = ~labels.isnan() if labels.is_floating_point() else labels >= 0
    while labeled.dim() > 1:
        labeled = labeled.any(-1)
    order = np.random.RandomState(choices.split_seed).permutation(
        labeled.nonzero().flatten().numpy())
    bounds = [len(order) * 60 // 100, len(order) * 80 // 100]
    for part, ids in zip(MASKS, np.split(order, bounds)):
        mask = torch().zeros(len(labels), dtype=torch().bool)
        mask[torch().from_numpy(ids)] = True
        store[MASKS[part]] = mask


def _brief(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m hearth.datasets.pyg",
        description="Convert a graph that PyTorch Geometric or numpy saved into a folder that "
                    "Hearth imports.")
    add = parser.add_argument
    add("--data", type=Path, required=True, help="data.pt or graph.npz")
    add("--output", type=Path, required=True, help="folder to make")
    add("--mask", type=int, metavar="N", help="of masks of several columns, the one to take")
    add("--split-seed", type=int, metavar="N", help="draws 60/20/20 where there are no masks")
    add("--trust-pickle", action="store_true",
        help="read a .pt whose pickle runs programs of its own")
    options = parser.parse_args(arguments)
    if options.split_seed is not None and not 0 <= options.split_seed < 2**32:
        parser.error("--split-seed must be in [0, 2^32)")
    choices = Choices(options.mask, options.split_seed, options.trust_pickle)
    try:
        found = convert(options.data, options.output, choices)
    except (ConversionError, OSError, ImportError, MemoryError) as error:
        print(f"pyg: error: {error}", file=sys.stderr)
        return 1
    if found["left_out"]:
        _say(f"left out: {', '.join(found['left_out'])}")
    flags = "".join(f" --{name}" if value is True else f" --{name} {value}"
                    for name, value in found["options"].items() if name != "format")
    _say(f"import it with: hearth dataset import NAME --source {options.output}{flags}")
    return 0


def _say(message: str) -> None:
    print(f"pyg: {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
