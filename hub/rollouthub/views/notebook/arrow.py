"""Converts a run feed's columns and full records to Arrow tables."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.parquet import arrow_tables
from rollouthub.export.record_columns import Table, typed_columns
from rollouthub.live.follow.attempt_columns import KINDS, AttemptColumns
from rollouthub.plugins.extras import pip_install
from rollouthub.rollout import Rollout
from rollouthub.store.notes import RunNotes
from rollouthub.store.sql_schema import SUMMARY_COLUMNS

_MOMENTS = ("started_at", "finished_at")
_MICROSECONDS = 1e6


def load_arrow() -> Any:
    """Import pyarrow and return the module; it is optional, slow to import, and has no type stubs.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    try:
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ImportError as error:
        raise ConfigError(f"tables of a run need pyarrow: {pip_install('data')}") from error


def chosen(columns: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The requested columns in the order asked for, without duplicates; all known columns for None.

    Raises:
        UnknownNameError: a column is unknown.
    """
    for name in columns or ():
        if name not in known:
            raise UnknownNameError("column", name, known)
    return list(dict.fromkeys(known if columns is None else columns))


def table_columns(arrow: Any, table: Table) -> list[str]:
    """The names of a table's columns."""
    return [name for name, _ in typed_columns(arrow, table)]


def record_table(arrow: Any, table: Table, rollouts: Iterable[Rollout], names: Sequence[str], notes: RunNotes) -> Any:
    """A table made of full records, with the named columns; `notes` are those of their run."""
    types = dict(typed_columns(arrow, table))
    schema = arrow.schema([(name, types[name]) for name in names])
    return arrow.concat_tables([schema.empty_table(), *arrow_tables(arrow, schema, rollouts, table, notes)])


def summary_table(arrow: Any, columns: AttemptColumns, places: "Sequence[int] | None", names: Sequence[str]) -> Any:
    """Rows of a feed's columns at the given places (None for all), copied, since the feed's columns keep growing."""
    arrays = {name: _array(arrow, columns, name) for name in names if name in SUMMARY_COLUMNS}
    table = arrow.table(arrays)
    return table if places is None else table.take(arrow.array(places, arrow.int64()))


def _array(arrow: Any, columns: AttemptColumns, name: str) -> Any:
    compute = arrow.compute
    match KINDS[name]:
        case "text":
            return arrow.array(columns.texts[name], arrow.string())
        case "words":
            words = columns.words[name]
            codes = _numbers(arrow, arrow.int32(), words.codes)
            codes = compute.if_else(compute.less(codes, 0), None, codes)
            return compute.take(arrow.array(words.vocabulary, arrow.string()), codes)
        case "whole":
            return _numbers(arrow, arrow.int64(), columns.wholes[name])
        case "flag":
            flags = _numbers(arrow, arrow.int8(), columns.flags[name])
            return compute.if_else(compute.less(flags, 0), None, compute.greater(flags, 0))
        case "real":
            numbers = _numbers(arrow, arrow.float64(), columns.numbers[name])
            if name in _MOMENTS:
                moments = compute.cast(compute.multiply(numbers, _MICROSECONDS), arrow.int64(), safe=False)
                return moments.cast(arrow.timestamp("us", tz="UTC"))
            return compute.if_else(compute.is_nan(numbers), None, numbers)


def _numbers(arrow: Any, kind: Any, numbers: Any) -> Any:
    return arrow.Array.from_buffers(kind, len(numbers), [None, arrow.py_buffer(numbers.tobytes())])
