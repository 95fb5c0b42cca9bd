"""Streams Parquet and CSV tables in batches of rows.

Memory is that of a batch, and for Parquet of the columns of a row group. CSV
files have a header; .gz is decompressed on the way. Columns read as text are
never guessed at: the text is as it stands in the file.
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


class Batch(NamedTuple):
    """Some rows; `first_row` counts from 1, without a CSV file's header."""

    path: Path
    first_row: int
    columns: pa.RecordBatch

    def error(self, position: int, message: str) -> ConversionError:
        return ConversionError(f"{self.path}: row {self.first_row + position}: {message}")


def is_parquet(path: Path) -> bool:
    return path.suffix in (".parquet", ".pq")


def read_schema(path: Path) -> pa.Schema:
    """Names and types of the columns. Those of CSV are guessed from its beginning."""
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
    """Yields the rows of the named columns; of those in `text` a CSV's are strings."""
    try:
        first_row = 1
        for batch in _parquet(path, columns) if is_parquet(path) else _csv(path, columns, text):
            if batch.num_rows:
                yield Batch(path, first_row, batch)
                first_row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise _named(path, error) from error


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    # With pre_buffer, the default, the whole file would be held.
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=BYTES_PER_BLOCK) as file:
        yield from file.iter_batches(batch_size=ROWS_PER_BATCH, columns=list(columns))


def _csv(path: Path, columns: Sequence[str], text: Sequence[str]) -> Iterator[pa.RecordBatch]:
    types = {name: pa.string() if name in text else pa.float64() for name in columns}
    with _open_csv(path, types) as reader:
        yield from reader


def _open_csv(path: Path, types: dict[str, pa.DataType]) -> pa.csv.CSVStreamingReader:
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix not in _CSV_DELIMITERS:
        raise ConversionError(f"{path}: not named .parquet, .pq, .csv, .tsv, .csv.gz or .tsv.gz")
    return pa.csv.open_csv(
        pa.input_stream(str(path), compression="detect"),
        # One thread: only then do errors tell the row.
        pa.csv.ReadOptions(use_threads=False, block_size=BYTES_PER_BLOCK),
        pa.csv.ParseOptions(delimiter=_CSV_DELIMITERS[plain.suffix], newlines_in_values=True),
        pa.csv.ConvertOptions(column_types=types, include_columns=list(types) or None))


def _named(path: Path, error: Exception) -> ConversionError:
    text = str(error)
    return ConversionError(text if str(path) in text else f"{path}: {text}")
