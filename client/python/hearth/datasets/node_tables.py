"""Streams the tables of a node type: ids and features to files, the rest into memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

import pyarrow as pa
import pyarrow.parquet

from hearth.datasets.id_map import BadId, IdMap, ids_of, is_integer_column
from hearth.datasets.manifest import ConversionError
from hearth.datasets.node_columns import (ClassReader, FeatureReader, SplitReader, TargetReader,
                                          is_feature)
from hearth.datasets.npy_stream import NpyWriter
from hearth.datasets.table_layouts import Nodes
from hearth.datasets.table_reader import (Batch, files_of, folder_columns, is_parquet,
                                          read_batches, read_schema, require)


@dataclass
class NodeTable:
    """A node type: the files or folders of its table, in order, and the columns to read.

    None for a column means the default: every other column as features, the
    columns "label" (unless there are targets) and "split" if there are such. []
    and "" mean none.
    """

    paths: list[Path] = field(default_factory=list)
    id_column: str = "id"
    features: Optional[list[str]] = None
    label: Optional[str] = None
    targets: list[str] = field(default_factory=list)
    split: Optional[str] = None

    @property
    def columns(self) -> list[str]:
        """All columns that are read. REQUIRES: the table is settled."""
        return [name for name in (self.id_column, *(self.features or []), self.label,
                                  *self.targets, self.split) if name]


class NodeIds(NamedTuple):
    """Ids by which tables of edges name the nodes of a type."""

    map: IdMap
    as_integers: bool


def settle_columns(kind: str, table: NodeTable) -> NodeTable:
    """Fills in defaults and files, by the schema of the first file; checks the other files
    against it."""
    paths = [file for path in table.paths for file in files_of(path)]
    path = paths[0]
    schema = read_schema(path)
    label = _or_default(table.label, "label", schema) if not table.targets else table.label or ""
    if label and table.targets:
        raise ConversionError(f"nodes of type {kind} have classes (--label) or targets (--target), "
                              "not both")
    split = _or_default(table.split, "split", schema)
    features = table.features
    if features is None:
        features = [name for name in schema.names
                    if name not in (table.id_column, label, split, *table.targets)]
        for name in features:
            if not is_feature(schema.field(name).type):
                raise ConversionError(
                    f"{path}: column {name!r} of type {schema.field(name).type} is not a feature: "
                    f"name those that are with --features {kind}=COLUMN,...")
    settled = NodeTable(paths, table.id_column, features, label, table.targets, split)
    for other in paths:
        require(other, read_schema(other), settled.columns)
    return settled


def unused_columns(paths: list[Path], columns: list[str]) -> list[str]:
    """Columns of a table's files and folders that are not in `columns`, the ones that are read."""
    files = [file for path in paths for file in files_of(path)]
    found = [name for file in files for name in read_schema(file).names]
    return [name for name in dict.fromkeys([*found, *folder_columns(paths)])
            if name not in columns]


def read_nodes(kind: str, table: NodeTable, folder: Path,
               feature_path: Path) -> tuple[Nodes, NodeIds]:
    """Reads a settled table. Writes `node_ids.KIND.parquet`, the features at `feature_path`
    and, if the classes have names, `classes.KIND.json`."""
    text = [name for name in (table.id_column, table.label, table.split) if name]
    first = table.paths[0]
    as_integers = is_parquet(first) and is_integer_column(
        read_schema(first).field(table.id_column).type)
    collector = _Collector(table, as_integers, folder / f"node_ids.{kind}.parquet", feature_path)
    try:
        for path in table.paths:
            for batch in read_batches(path, table.columns, text):
                collector.append(batch)
    finally:
        collector.close()
    return collector.finish(folder / f"classes.{kind}.json")


class _Collector:
    """Takes the batches of one node type."""

    def __init__(self, table: NodeTable, as_integers: bool, id_path: Path,
                 feature_path: Path) -> None:
        self._table, self._as_integers, self._feature_path = table, as_integers, feature_path
        self._id_schema = pa.schema([("id", pa.int64() if as_integers else pa.string())])
        self._id_writer = pyarrow.parquet.ParquetWriter(id_path, self._id_schema)
        self._id_parts: list[Any] = []
        self._starts: list[tuple[int, Path]] = []
        self._num_nodes = 0
        self._features = FeatureReader(table.features) if table.features else None
        self._feature_writer: Optional[NpyWriter] = None
        self._classes = ClassReader(table.label) if table.label else None
        self._targets = TargetReader(table.targets) if table.targets else None
        self._split = SplitReader(table.split) if table.split else None

    def append(self, batch: Batch) -> None:
        if not self._starts or self._starts[-1][1] != batch.path:
            self._starts.append((self._num_nodes, batch.path))
        self._append_ids(batch)
        if self._features:
            rows = self._features.rows(batch)
            if self._feature_writer is None:
                self._feature_writer = NpyWriter(self._feature_path, "<f4", rows.shape[1:])
            self._feature_writer.append(rows)
        reader = self._classes or self._targets
        labeled = reader.append(batch) if reader else None
        if self._split:
            self._split.append(batch, labeled)

    def finish(self, class_path: Path) -> tuple[Nodes, NodeIds]:
        if not self._num_nodes:
            raise ConversionError(f"{self._table.paths[0]}: no nodes")
        ids = IdMap(self._id_parts)
        duplicate = ids.duplicate()
        if duplicate is not None:
            row, earlier = map(self._place, duplicate)
            raise ConversionError(f"{row}: the id of {earlier} again")
        labels: Optional[Any] = self._targets.finish() if self._targets else None
        if self._classes:
            labels, names = self._classes.finish(self._table.paths[0])
            if names is not None:
                class_path.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
        nodes = Nodes(
            num_nodes=self._num_nodes,
            feature_dim=self._feature_writer.row_shape[0] if self._feature_writer else 0,
            labels=labels,
            split=self._split.finish() if self._split else None,
        )
        return nodes, NodeIds(ids, self._as_integers)

    def close(self) -> None:
        self._id_writer.close()
        if self._feature_writer:
            self._feature_writer.close()

    def _append_ids(self, batch: Batch) -> None:
        name = self._table.id_column
        column = batch.columns.column(name)
        try:
            self._id_parts.append(ids_of(column, self._as_integers))
        except BadId as error:
            raise batch.error(error.position, f"column {name!r}: {error.reason}") from error
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        self._id_writer.write_table(pa.table([column.cast(self._id_schema.field(0).type)],
                                             schema=self._id_schema))
        self._num_nodes += len(column)

    def _place(self, row: int) -> str:
        start, path = [entry for entry in self._starts if entry[0] <= row][-1]
        return f"{path}: row {row - start + 1}"


def _or_default(named: Optional[str], default: str, schema: pa.Schema) -> str:
    if named is not None:
        return named
    return default if default in schema.names else ""
