"""Reads rows from one file, lazily: JSON lines, JSON arrays, both optionally gzipped, Parquet, and CSV metadata."""

import csv
import gzip
import json
import re
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from rollouthub.authoring.rows.row import METADATA, Row
from rollouthub.errors import ConfigError, DataError
from rollouthub.plugins.extras import pip_install
from rollouthub.task import BadRow

SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz", ".parquet")
_SPACE = re.compile(r"[ \t\r\n]*")


def suffix_of(path: Path) -> str | None:
    """The suffix that gives a file's format; None for a format that is not supported."""
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def is_metadata(path: Path) -> bool:
    """Whether a file describes the pictures beside it: `metadata.jsonl` or `metadata.csv`."""
    return path.stem == METADATA and path.suffix.lower() in (".jsonl", ".csv")


def read_file(path: Path) -> Iterator[Row | BadRow]:
    """The rows of a file; a `BadRow` for each that cannot be read.

    Raises:
        DataError: the file cannot be read, or only in part, or holds no rows.
        ConfigError: the format is not supported, or needs an extra.
    """
    suffix = ".csv" if is_metadata(path) and path.suffix.lower() == ".csv" else suffix_of(path)
    if suffix is None:
        raise ConfigError(f"{path}: not a data file; it must end in {', '.join(SUFFIXES)}")
    if suffix == ".parquet":
        rows: Iterator[Row | BadRow] = _read_parquet(path)
    else:
        rows = _read_csv(path) if suffix == ".csv" else _read_json(path, suffix)
    is_empty = True
    for row in rows:
        is_empty = False
        yield row
    if is_empty:
        raise DataError("the file holds no rows", path)


def _read_json(path: Path, suffix: str) -> Iterator[Row | BadRow]:
    with _readable(path), gzip.open(path) if suffix.endswith(".gz") else path.open("rb") as file:
        # `.json` is often one object a line; the first character tells.
        stream = cast(BinaryIO, file)
        if ".json" in suffix and "jsonl" not in suffix and _starts_array(stream):
            yield from _read_array(path, stream)
        else:
            yield from _read_lines(path, stream)


@contextmanager
def _readable(path: Path) -> Generator[None]:
    """Turn errors of a missing, damaged or unreadable file into ones that name the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError("there is no such file", path) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"the gzip file is damaged: {error}", path) from error
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror or error}", path) from error


def _starts_array(file: BinaryIO) -> bool:
    head = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    file.seek(0)
    return head.startswith(b"[")


def _read_lines(path: Path, file: BinaryIO) -> Iterator[Row | BadRow]:
    index = 0
    for number, raw in enumerate(file, start=1):
        line = raw.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else raw.strip()
        if not line:
            continue
        try:
            yield _row(_DECODER.decode(line.decode()), path, number, index)
        except UnicodeDecodeError as error:
            yield BadRow(
                DataError(f"not UTF-8: byte 0x{line[error.start]:02x} at column {error.start + 1}", path, number)
            )
        except (ValueError, RecursionError) as error:
            yield BadRow(DataError(f"not JSON: {_explain(error)}", path, number))
        index += 1


def _read_array(path: Path, file: BinaryIO) -> Iterator[Row | BadRow]:
    """Read an array element by element, so that each has its line, and elements before a broken one are still read."""
    raw = file.read()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"not UTF-8: byte 0x{raw[error.start]:02x}", path, line) from error
    position, line, counted, index = _skip_space(text, _skip_space(text, 0) + 1), 1, 0, 0
    while not text.startswith("]", position):
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, position = _DECODER.raw_decode(text, position)
            position = _skip_space(text, position)
            if text.startswith(",", position):
                position = _skip_space(text, position + 1)
            elif not text.startswith("]", position):
                raise json.JSONDecodeError("Expecting ',' or ']'", text, position)
        except (ValueError, RecursionError) as error:
            at = error.lineno if isinstance(error, json.JSONDecodeError) else line
            problem = f"not JSON: {_explain(error)}; this is in row {index}, and nothing after it can be read"
            raise DataError(problem, path, at) from error
        yield _row(value, path, line, index)
        index += 1
    if end := text[position + 1 :].strip():
        raise DataError(f"not JSON: {end[:40]!r} follows the array", path, text.count("\n", 0, position) + 1)


def _row(value: object, path: Path, line: int, index: int) -> Row | BadRow:
    if (half := _half_pair(value)) is not None:
        return BadRow(DataError(f"not Unicode: a string holds half of a surrogate pair, \\u{half:04x}", path, line))
    if isinstance(value, dict):
        return Row(cast(dict[str, Any], value), str(path), line, index, path.parent)
    return BadRow(DataError(f"a row must be an object of columns, this is {_kind(value)}", path, line))


def _half_pair(value: object) -> int | None:
    """The code of a lone surrogate in a value, which JSON can write but UTF-8 cannot; None if there is none."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return ord(error.object[error.start])
    return None


def _read_csv(path: Path) -> Iterator[Row | BadRow]:
    with _readable(path), path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            for index, values in enumerate(reader):
                if None in values or None in values.values():
                    yield BadRow(DataError("the row has another number of columns", path, reader.line_num))
                else:
                    yield Row(values, str(path), reader.line_num, index, path.parent)
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"the CSV file cannot be read: {error}", path, reader.line_num) from error


def _read_parquet(path: Path) -> Iterator[Row]:
    try:
        # Imported on use: it is an extra, and takes its time. It has no type stubs.
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(f"{path}: reading Parquet needs pyarrow: {pip_install('data')}") from error
    with _readable(path), path.open("rb") as file:
        index = 0
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=256):
                for values in batch.to_pylist():
                    yield Row(values, str(path), None, index, path.parent)
                    index += 1
        except arrow.ArrowException as error:
            raise DataError(f"the Parquet file cannot be read: {error}", path) from error


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _explain(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "an array"
    return "null" if value is None else f"the value {value!r:.60}"
