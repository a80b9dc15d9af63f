"""Writes a run's records as Parquet: flat, typed columns that pandas, DuckDB and `datasets` read directly."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export.record_columns import Table, typed_columns
from rollouthub.export.record_tables import Row, column_array, rows_of
from rollouthub.plugins.extras import pip_install
from rollouthub.rollout import Rollout
from rollouthub.store.atomic_files import complete_file
from rollouthub.store.notes import RunNotes
from rollouthub.store.reader import RunReader
from rollouthub.store.record_rows import Chosen
from rollouthub.values import Float32s, Int32s

_GROUP_ROWS, _GROUP_BYTES = 1000, 64 * 2**20
"""Most rows and bytes of one row group, which is built in memory."""


def export_parquet(
    reader: RunReader,
    out: Path,
    table: Table = "rollouts",
    *,
    effective: bool = True,
    chosen: Chosen | None = None,
) -> int:
    """Write a run as a Parquet file, one row group at a time. Returns the number of rows.

    Raises:
        ConfigError: the place cannot be written, or pyarrow is not installed.
        StoreError: the file could not be written.
    """
    try:
        # Imported on use: it is an extra, and takes its time. It has no type stubs.
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(f"writing Parquet needs pyarrow: {pip_install('data')}") from error
    schema = arrow.schema(typed_columns(arrow, table))
    count, notes = 0, RunNotes.read(reader.directory)
    with (
        complete_file(out) as path,
        path.open("wb") as file,
        parquet.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for group in arrow_tables(arrow, schema, reader.rollouts(effective=effective, chosen=chosen), table, notes):
            writer.write_table(group)
            count += len(group)
    return count


def arrow_tables(
    arrow: Any, schema: Any, rollouts: Iterable[Rollout], table: Table, notes: RunNotes | None = None
) -> Iterator[Any]:
    """Records as Arrow tables of a schema, each of bounded size; `notes` are those of their run."""
    for rows in _groups(rollouts, table, notes):
        yield arrow.table([column_array(arrow, rows, column) for column in schema], schema=schema)


def _groups(rollouts: Iterable[Rollout], table: Table, notes: RunNotes | None) -> Iterator[list[Row]]:
    rows: list[Row] = []
    size = 0
    for rollout in rollouts:
        for row in rows_of(rollout, table, notes):
            rows.append(row)
            size += 2000 + sum(len(value.raw) for value in row.values() if isinstance(value, Int32s | Float32s))
        if len(rows) >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows
