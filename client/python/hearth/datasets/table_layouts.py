"""The folders that converters make: a numpy folder, or GraphBolt's OnDiskDataset.

Each layout says where features and edges are to be streamed, and writes the rest
when all of the source is read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from hearth.datasets.manifest import ConversionError

PARTS = ("train", "valid", "test")

Ids = npt.NDArray[np.int64]


class Nodes(NamedTuple):
    """Contents of a node type, after its tables are read."""

    num_nodes: int
    feature_dim: int  # 0: no features
    labels: Optional[npt.NDArray[Any]]  # int64: classes; float32: numbers to predict
    split: Optional[dict[str, Ids]]

    @property
    def has_numbers(self) -> bool:
        return self.labels is not None and self.labels.dtype.kind == "f"

    @property
    def num_classes(self) -> int:
        if self.labels is None or self.has_numbers:
            return 0
        return int(self.labels.max(initial=-1)) + 1

    @property
    def is_target(self) -> bool:
        return self.labels is not None and self.split is not None


class NumpyFolder:
    """One node type and one relation, as Hearth's plain layout."""

    name = "numpy"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def features(self, _: str) -> Path:
        return self._folder / "node_feat.npy"

    def edges(self, _: str) -> Path:
        return self._folder / "edge_index.npy"

    def finish(self, nodes: dict[str, Nodes], _: list[str]) -> None:
        (kind, only), = nodes.items()
        if not only.feature_dim:
            raise ConversionError(f"nodes of type {kind} have no features: a numpy folder has them")
        labels, split = _target(kind, only)
        np.save(self._folder / "node_label.npy", labels)
        for part, ids in split.items():
            np.save(self._folder / f"{part}_idx.npy", ids)


class GraphBoltFolder:
    """Several node types or relations: metadata.yaml, edges/, features/ and sets/."""

    name = "graphbolt"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("edges", "features", "sets"):
            (folder / name).mkdir()

    def features(self, kind: str) -> Path:
        return self._folder / f"features/{kind}.npy"

    def edges(self, relation: str) -> Path:
        return self._folder / f"edges/{relation.replace(':', '.')}.npy"

    def finish(self, nodes: dict[str, Nodes], relations: list[str]) -> None:
        targets = {kind: one for kind, one in nodes.items() if one.is_target}
        if not targets:
            raise ConversionError("no node type has both classes and a split")
        for kind, one in targets.items():
            _target(kind, one)
        if len({one.has_numbers for one in targets.values()}) > 1:
            raise ConversionError("some node types have classes and some have targets: a dataset "
                                  "has labels of one kind")
        lines = ["graph:", "  nodes:"]
        lines += [f'    - {{type: "{kind}", num: {one.num_nodes}}}' for kind, one in nodes.items()]
        lines += ["  edges:"]
        lines += [f'    - {{type: "{relation}", format: numpy, path: {self._name(relation)}}}'
                  for relation in relations]
        featured = [kind for kind, one in nodes.items() if one.feature_dim]
        lines += ["feature_data:" if featured else "feature_data: []"]
        lines += [f'  - {{domain: node, type: "{kind}", name: feat, format: numpy, '
                  f"in_memory: false, path: features/{kind}.npy}}" for kind in featured]
        lines += ["tasks:"]
        for kind, one in targets.items():
            lines += self._task(kind, one)
        (self._folder / "metadata.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _name(self, relation: str) -> str:
        return json.dumps(self.edges(relation).relative_to(self._folder).as_posix())

    def _task(self, kind: str, one: Nodes) -> list[str]:
        labels, split = _target(kind, one)
        lines = ([f'  - name: "{kind}_regression"'] if one.has_numbers else
                 [f'  - name: "{kind}_classification"', f"    num_classes: {one.num_classes}"])
        for part, set_name in zip(PARTS, ("train_set", "validation_set", "test_set")):
            lines += [f"    {set_name}:", f'      - type: "{kind}"', "        data:"]
            ids = split[part]
            for name, array in (("seeds", ids), ("labels", labels[ids])):
                path = f"sets/{part}_{name}.{kind}.npy"
                np.save(self._folder / path, array)
                lines += [f"          - {{name: {name}, format: numpy, path: {path}}}"]
        return lines


def new_layout(folder: Path, num_types: int, num_relations: int) -> Any:
    is_plain = num_types == 1 and num_relations == 1
    return NumpyFolder(folder) if is_plain else GraphBoltFolder(folder)


def _target(kind: str, one: Nodes) -> tuple[npt.NDArray[Any], dict[str, Ids]]:
    """The labels and the split of a type that has both; raises ConversionError for others."""
    if one.labels is None:
        raise ConversionError(f"nodes of type {kind} have no classes: name their column with "
                              f"--label {kind}=COLUMN, or numbers to predict with --target")
    if one.split is None:
        raise ConversionError(f"nodes of type {kind} have no split: name its column with --split "
                              f"{kind}=COLUMN, or have one drawn with --split-seed")
    for part, ids in one.split.items():
        if not len(ids):
            raise ConversionError(f"no node of type {kind} is in {part}")
    return one.labels, one.split
