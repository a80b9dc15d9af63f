"""Writes data sets as JSON lines or Parquet, one row group at a time; a file appears only when it is complete."""

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import msgspec

from rollouthub.errors import ConfigError
from rollouthub.export.data_set import DataSet
from rollouthub.export.file_formats import FileFormat
from rollouthub.export.formats.data_columns import Columns, Kind, Row
from rollouthub.export.record_tables import column_array
from rollouthub.plugins.extras import pip_install
from rollouthub.store.atomic_files import complete_file
from rollouthub.values import Float32s, Int32s

FILE_FORMATS: tuple[FileFormat, ...] = ("jsonl", "parquet")
"""The file formats of a data set; the first is the default."""
_GROUP_ROWS, _GROUP_BYTES = 500, 8 * 2**20
"""Most rows and bytes of one Parquet row group, which is built in memory."""


class NothingToWrite(Exception):
    """The data set has no rows, so no file is written."""


def write_jsonl(data_set: DataSet, out: IO[bytes]) -> int:
    """Write one line of JSON per row. Returns the number of rows."""
    encoder = msgspec.json.Encoder(enc_hook=_numbers)
    column = data_set.format.line_column
    count = 0
    for row in data_set:
        out.write(encoder.encode(row if column is None else row[column]))
        out.write(b"\n")
        count += 1
    return count


def write_file(data_set: DataSet, out: Path, form: FileFormat) -> int:
    """Write a data set to a file, which appears when it is complete. Returns the number of rows.

    Raises:
        NothingToWrite: the data set has no rows; no file is written.
        ConfigError: the place cannot be written, or pyarrow is not installed.
        StoreError: the file could not be written.
        MixedModels: see `DataSet`.
    """
    with complete_file(out) as path:
        if form == "parquet":
            count = _write_parquet(data_set, path)
        else:
            with path.open("wb") as file:
                count = write_jsonl(data_set, file)
        if not count:
            raise NothingToWrite
    return count


def _write_parquet(data_set: DataSet, path: Path) -> int:
    arrow = load_arrow()
    parquet: Any = import_module("pyarrow.parquet")
    schema = arrow_schema(arrow, data_set.columns)
    count = 0
    with path.open("wb") as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for rows in _batches(data_set, is_deep=data_set.format.line_column is not None):
            arrays = [
                _array(arrow, rows, field, kind) for field, (_, kind) in zip(schema, data_set.columns, strict=True)
            ]
            writer.write_table(arrow.table(arrays, schema=schema))
            count += len(rows)
        return count


def load_arrow() -> Any:
    """Import the pyarrow package. It is an optional dependency, slow to import, and has no type stubs.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ConfigError(f"writing Parquet needs pyarrow: {pip_install('data')}") from error


def arrow_schema(arrow: Any, columns: Columns) -> Any:
    """The Arrow schema of a table. Objects have Arrow's JSON type, which `datasets` reads as objects and other
    libraries as text.
    """
    # pyarrow 19 and later; before, it is text for everyone.
    json_text = arrow.json_(arrow.string()) if hasattr(arrow, "json_") else arrow.string()
    types: dict[Kind, Any] = {
        "text": arrow.string(),
        "whole": arrow.int64(),
        "small": arrow.int32(),
        "real": arrow.float64(),
        "truth": arrow.bool_(),
        "ids": arrow.list_(arrow.int32()),
        "reals": arrow.list_(arrow.float32()),
        "texts": arrow.list_(arrow.string()),
        "json": json_text,
        "jsons": arrow.list_(json_text),
    }
    return arrow.schema([(name, types[kind]) for name, kind in columns])


def _array(arrow: Any, rows: Sequence[Row], field: Any, kind: Kind) -> Any:
    if kind == "json":
        return arrow.array([_json(row[field.name]) for row in rows], arrow.string()).cast(field.type)
    if kind == "jsons":
        texts = [None if row[field.name] is None else [_json(item) for item in row[field.name]] for row in rows]
        return arrow.array(texts, arrow.list_(arrow.string())).cast(field.type)
    return column_array(arrow, rows, field)


def _batches(rows: Iterable[Row], *, is_deep: bool) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += 2000 + sum(len(value.raw) for value in row.values() if isinstance(value, Int32s | Float32s))
        if is_deep:
            size += 20 * _GROUP_BYTES // _GROUP_ROWS  # its arrays lie deep within one column
        if len(batch) >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=_numbers).decode()


def _numbers(value: Any) -> Any:
    if isinstance(value, Int32s | Float32s):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
