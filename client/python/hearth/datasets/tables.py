"""Converts Parquet and CSV tables of nodes and edges into a folder that Hearth imports.

    python3 -m hearth.datasets.tables --output FOLDER \\
        --nodes paper=papers.parquet --nodes author=authors.csv \\
        --edges author:writes:paper=writes.csv --edges paper:cites:paper=cites.parquet

- A table of nodes has a column of ids, integers or strings, each once; nodes are
  numbered in the order of the rows, and `node_ids.TYPE.parquet` keeps that map.
  Given several times, --nodes TYPE=... names the parts of one table; a folder
  stands for all its parts, as Spark writes them.
- Features are numbers or lists of numbers, all of one length: the named columns,
  or every column that is no id, class or split; written as float32. A missing
  value is an error.
- Classes: whole numbers are taken as they are; other values are numbered in the
  order of their names, which `classes.TYPE.json` keeps. Empty, null, NaN or
  negative: unlabeled.
- Numbers to predict, in one column or several, are named with --target; missing
  or NaN: unlabeled. Such a folder is imported with --labels targets.
- The split: train, valid (or validation, or val), test, or empty for none; or
  60/20/20 of the labeled nodes, drawn with --split-seed.
- A table of edges has a column of source ids and one of destination ids. Edges
  are kept as they are: repeats, self loops and one direction.
- Unread columns are listed.
- CSV has a header, and ids in it are text: `007` is not `7`, unless the ids in
  the table of nodes are integers.

One node type and one relation become a numpy folder; anything else becomes the
raw folder of a GraphBolt OnDiskDataset.

Memory: per node 5 bytes for class and split (4 for each target) and the id (see
id_map.py); a batch of rows, and for Parquet a row group. Edges and features are
streamed. The folder appears complete or not at all.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Sequence

import numpy as np
import numpy.typing as npt

try:
    import pyarrow as pa
except ImportError as error:
    if __name__ == "__main__":
        sys.exit("tables: error: pyarrow is needed: pip install pyarrow")
    raise ImportError("pyarrow is needed: pip install pyarrow") from error

from hearth.datasets import manifest as manifests
from hearth.datasets.atomic_folder import atomic_folder
from hearth.datasets.id_map import BadId, describe, ids_of
from hearth.datasets.manifest import ConversionError
from hearth.datasets.node_columns import seeded_split
from hearth.datasets.node_tables import (NodeIds, NodeTable, read_nodes, settle_columns,
                                         unused_columns)
from hearth.datasets.npy_stream import PairWriter
from hearth.datasets.table_layouts import Nodes, new_layout
from hearth.datasets.table_reader import Batch, files_of, read_batches, read_schema, require

FORMAT = "hearth-tables-1"
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass
class EdgeTable:
    """A relation: the files or folders of its table, the columns of source and destination."""

    paths: list[Path] = field(default_factory=list)
    ends: tuple[str, str] = ("src", "dst")


@dataclass
class Tables:
    """All tables of one folder, by node type and by SRC:REL:DST."""

    nodes: dict[str, NodeTable]
    edges: dict[str, EdgeTable]
    split_seed: Optional[int] = None


def read_edges(relation: str, table: EdgeTable, ids: dict[str, NodeIds], path: Path) -> int:
    """Streams a table of edges into `path`, as nodes; returns their number."""
    source, _, destination = relation.split(":")
    writer = PairWriter(path)
    try:
        for file in (file for path in table.paths for file in files_of(path)):
            require(file, read_schema(file), table.ends)
            for batch in read_batches(file, list(dict.fromkeys(table.ends)), table.ends):
                writer.append(_end(batch, table.ends[0], source, ids[source]),
                              _end(batch, table.ends[1], destination, ids[destination]))
    finally:
        writer.close()
    return writer.num_pairs


def _end(batch: Batch, column: str, kind: str, ids: NodeIds) -> npt.NDArray[np.int64]:
    try:
        values = ids_of(batch.columns.column(column), ids.as_integers)
    except BadId as error:
        raise batch.error(error.position, f"column {column!r}: {error.reason}") from error
    rows = ids.map.rows_of(values)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown):
        raise batch.error(int(unknown[0]), f"column {column!r}: {describe(values[unknown[0]])} is "
                                           f"not the id of a node of type {kind}")
    return rows


def convert(tables: Tables, output: Path) -> dict[str, Any]:
    """Makes `output`, or replaces it if it was made from tables; returns its counts."""
    if manifests.read(output, "hearth-tables-") is None:
        manifests.refuse_foreign(output, "converted from tables")
    settled = {kind: settle_columns(kind, table) for kind, table in tables.nodes.items()}
    left_out = {kind: unused_columns(tables.nodes[kind].paths, table.columns)
                for kind, table in settled.items()}
    left_out.update({relation: unused_columns(edges.paths, list(edges.ends))
                     for relation, edges in tables.edges.items()})
    with atomic_folder(output) as folder:
        layout = new_layout(folder, len(tables.nodes), len(tables.edges))
        nodes: dict[str, Nodes] = {}
        ids: dict[str, NodeIds] = {}
        for kind, table in settled.items():
            _say(f"reading nodes of type {kind}")
            nodes[kind], ids[kind] = read_nodes(kind, table, folder, layout.features(kind))
            labels = nodes[kind].labels
            if tables.split_seed is not None and labels is not None \
                    and nodes[kind].split is None:
                split = seeded_split(labels, tables.split_seed)
                nodes[kind] = nodes[kind]._replace(split=split)
        num_edges = {}
        for relation, edges in tables.edges.items():
            _say(f"reading edges {relation}")
            num_edges[relation] = read_edges(relation, edges, ids, layout.edges(relation))
        layout.finish(nodes, list(tables.edges))
        counts = {
            "nodes": {kind: one.num_nodes for kind, one in nodes.items()},
            "edges": num_edges,
            "feature_dim": {kind: one.feature_dim for kind, one in nodes.items()},
            "classes": {kind: one.num_classes for kind, one in nodes.items()},
            "columns left out": {name: columns for name, columns in left_out.items() if columns},
        }
        manifests.write(folder, _origin(settled, tables, layout.name), counts)
    if any(one.has_numbers for one in nodes.values()):
        _say("import it with --labels targets: the labels are numbers to predict")
    return {"layout": layout.name, **counts}


def _origin(nodes: dict[str, NodeTable], tables: Tables, layout: str) -> dict[str, Any]:
    def files(paths: list[Path]) -> dict[str, int]:
        return {file.relative_to(path.parent).as_posix(): file.stat().st_size
                for path in paths for file in files_of(path)}

    return {
        "format": FORMAT,
        "layout": layout,
        "split_seed": tables.split_seed,
        "nodes": {kind: {"bytes_of_files": files(tables.nodes[kind].paths),
                         "id": table.id_column, "features": table.features,
                         "label": table.label, "targets": table.targets, "split": table.split}
                  for kind, table in nodes.items()},
        "edges": {relation: {"bytes_of_files": files(table.paths), "ends": table.ends}
                  for relation, table in tables.edges.items()},
    }


def parse_arguments(arguments: Optional[Sequence[str]]) -> tuple[Tables, Path]:
    parser = argparse.ArgumentParser(
        prog="python3 -m hearth.datasets.tables",
        description="Convert Parquet and CSV tables into a folder that Hearth imports.")
    add = parser.add_argument
    add("--output", type=Path, required=True, help="folder to make")
    add("--nodes", action="append", default=[], metavar="TYPE=PATH",
        help="a table of nodes: a file, or a folder of parts")
    add("--edges", action="append", default=[], metavar="SRC:REL:DST=PATH",
        help="one of edges")
    add("--id", action="append", default=[], metavar="TYPE=COLUMN", help="default: id")
    add("--features", action="append", default=[], metavar="TYPE=COLUMN,...",
        help="default: all columns but those of id, class and split; TYPE= for none")
    add("--label", action="append", default=[], metavar="TYPE=COLUMN",
        help="classes; default: label, if there is one; TYPE= for none")
    add("--target", action="append", default=[], metavar="TYPE=COLUMN,...",
        help="numbers to predict, in place of classes")
    add("--split", action="append", default=[], metavar="TYPE=COLUMN",
        help="train, valid, test or empty; default: split, if there is one; TYPE= for none")
    add("--split-seed", type=int, help="draws 60/20/20 where there are classes and no split")
    add("--ends", action="append", default=[], metavar="SRC:REL:DST=COLUMN,COLUMN",
        help="source and destination; default: src,dst")
    options = parser.parse_args(arguments)
    try:
        return _tables(options), options.output
    except ValueError as error:
        parser.error(str(error))


def _tables(options: argparse.Namespace) -> Tables:
    """Raises ValueError for arguments that do not fit each other."""
    nodes: dict[str, NodeTable] = {}
    edges: dict[str, EdgeTable] = {}
    for kind, file in _pairs("--nodes", options.nodes):
        if not _NAME.fullmatch(kind):
            raise ValueError(f"--nodes: {kind!r} is not a name of letters, digits, _ and -")
        nodes.setdefault(kind, NodeTable()).paths.append(Path(file))
    for relation, file in _pairs("--edges", options.edges):
        parts = relation.split(":")
        if len(parts) != 3 or not all(map(_NAME.fullmatch, parts)):
            raise ValueError(f"--edges: {relation!r} is not SRC:REL:DST")
        for kind in (parts[0], parts[2]):
            if kind not in nodes:
                raise ValueError(f"--edges {relation}: there are no --nodes {kind}=FILE")
        edges.setdefault(relation, EdgeTable()).paths.append(Path(file))
    if not nodes or not edges:
        raise ValueError("at least one --nodes and one --edges are needed")
    for flag, name in (("id", "id_column"), ("label", "label"), ("split", "split")):
        for kind, column in _pairs(f"--{flag}", getattr(options, flag)):
            setattr(_known(nodes, f"--{flag}", kind), name, column)
    for kind, columns in _pairs("--features", options.features):
        _known(nodes, "--features", kind).features = columns.split(",") if columns else []
    for kind, columns in _pairs("--target", options.target):
        _known(nodes, "--target", kind).targets = columns.split(",")
    for relation, columns in _pairs("--ends", options.ends):
        ends = columns.split(",")
        if len(ends) != 2:
            raise ValueError(f"--ends {relation}: {columns!r} is not two columns")
        _known(edges, "--ends", relation).ends = (ends[0], ends[1])
    if options.split_seed is not None and not 0 <= options.split_seed < 2**32:
        raise ValueError("--split-seed must be in [0, 2^32)")
    return Tables(nodes, edges, options.split_seed)


def _pairs(flag: str, values: list[str]) -> list[tuple[str, str]]:
    for value in values:
        if "=" not in value:
            raise ValueError(f"{flag}: {value!r} has no '='")
    return [(name, rest) for name, _, rest in (value.partition("=") for value in values)]


def _known(tables: dict[str, Any], flag: str, name: str) -> Any:
    if name not in tables:
        raise ValueError(f"{flag}: there is no {name!r}; there are {', '.join(tables)}")
    return tables[name]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    tables, output = parse_arguments(arguments)
    try:
        counts = convert(tables, output)
    except (ConversionError, OSError, pa.ArrowException) as error:
        print(f"tables: error: {error}", file=sys.stderr)
        return 1
    for what, count in counts.items():
        if count:
            _say(f"{what}: {count}")
    return 0


def _say(message: str) -> None:
    print(f"tables: {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

