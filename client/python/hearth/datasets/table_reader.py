"""Streams Parquet and CSV tables in batches of rows.

A table is a file, or a folder of parts as Spark writes one. Memory holds a batch,
and for Parquet the columns of a row group. CSV files have a header, and commas (in
.tsv tabs) between fields, or semicolons if the header has semicolons and no such
separator; .gz, .bz2 and .zst are decompressed on the way. Columns that are read as
text have exactly the text of the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from hearth.datasets.manifest import ConversionError

ROWS_PER_BATCH = 1 << 16
BYTES_PER_BLOCK = 1 << 22

_CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_COMPRESSIONS = (".gz", ".bz2", ".zst")


class Batch(NamedTuple):
    """Some rows; `first_row` counts from 1, without a CSV file's header."""

    path: Path
    first_row: int
    columns: pa.RecordBatch

    def error(self, position: int, message: str) -> ConversionError:
        return ConversionError(f"{self.path}: row {self.first_row + position}: {message}")


def files_of(path: Path) -> list[Path]:
    """The files of a table in order: `path` itself, or all files below a folder.

    Names that begin with `_` or `.` (_SUCCESS, checksums) and empty files are no parts."""
    if not path.is_dir():
        return [path]
    parts = [file for file in sorted(path.rglob("*"))
             if not any(name.startswith(("_", ".")) for name in file.relative_to(path).parts)
             and (is_parquet(file) or _csv_suffix(file)) and file.is_file()
             and file.stat().st_size]
    if not parts:
        raise ConversionError(f"{path}: a folder without Parquet or CSV files")
    return parts


def folder_columns(paths: Sequence[Path]) -> list[str]:
    """Columns whose values are only in names of folders (`year=2001`), as Spark writes columns
    that a table is partitioned by."""
    return list(dict.fromkeys(
        name.partition("=")[0] for path in paths if path.is_dir() for file in files_of(path)
        for name in file.relative_to(path).parts[:-1] if "=" in name))


def is_parquet(path: Path) -> bool:
    return path.suffix in (".parquet", ".pq")


def read_schema(path: Path) -> pa.Schema:
    """Names and types of the columns; types of CSV are guessed from its beginning."""
    try:
        if is_parquet(path):
            return pa.parquet.read_schema(path)
        with _open_csv(path, {}) as reader:
            return reader.schema
    except (pa.ArrowException, OSError) as error:
        raise _named(path, error) from error


def require(path: Path, schema: pa.Schema, columns: Sequence[str]) -> None:
    """Raises if one of the columns is missing, or is there twice."""
    for column in columns:
        found = len(schema.get_all_field_indices(column))
        if found != 1:
            raise ConversionError(f"{path}: {'no' if found == 0 else 'more than one'} column "
                                  f"{column!r}; its columns: {', '.join(schema.names)}")


def read_batches(path: Path, columns: Sequence[str], text: Sequence[str]) -> Iterator[Batch]:
    """Yields the rows of the named columns; columns of a CSV in `text` are strings."""
    try:
        first_row = 1
        for batch in _parquet(path, columns) if is_parquet(path) else _csv(path, columns, text):
            if batch.num_rows:
                yield Batch(path, first_row, batch)
                first_row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise _named(path, error) from error


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    # pre_buffer, the default, would hold the whole file.
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=BYTES_PER_BLOCK) as file:
        yield from file.iter_batches(batch_size=ROWS_PER_BATCH, columns=list(columns))


def _csv(path: Path, columns: Sequence[str], text: Sequence[str]) -> Iterator[pa.RecordBatch]:
    types = {name: pa.string() if name in text else pa.float64() for name in columns}
    with _open_csv(path, types) as reader:
        yield from reader


def _csv_suffix(path: Path) -> str:
    """.csv or .tsv, whether compressed or not; empty for other files."""
    plain = path.with_suffix("") if path.suffix in _COMPRESSIONS else path
    return plain.suffix if plain.suffix in _CSV_DELIMITERS else ""


def _open_csv(path: Path, types: dict[str, pa.DataType]) -> pa.csv.CSVStreamingReader:
    suffix = _csv_suffix(path)
    if not suffix:
        raise ConversionError(f"{path}: not named .parquet, .pq, .csv or .tsv, perhaps with "
                              f"{', '.join(_COMPRESSIONS)} behind")
    return pa.csv.open_csv(
        pa.input_stream(str(path), compression="detect"),
        # With one thread, errors tell the row.
        pa.csv.ReadOptions(use_threads=False, block_size=BYTES_PER_BLOCK),
        pa.csv.ParseOptions(delimiter=_delimiter(path, _CSV_DELIMITERS[suffix]),
                            newlines_in_values=True),
        pa.csv.ConvertOptions(column_types=types, include_columns=list(types) or None))


def _delimiter(path: Path, usual: str) -> str:
    with pa.input_stream(str(path), compression="detect") as stream:
        header = stream.read(BYTES_PER_BLOCK).partition(b"\n")[0]
    return ";" if b";" in header and usual.encode() not in header else usual


def _named(path: Path, error: Exception) -> ConversionError:
    text = str(error)
    return ConversionError(text if str(path) in text else f"{path}: {text}")
