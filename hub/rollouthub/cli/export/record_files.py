"""Full records for `hub export`: as lines of JSON, as Parquet columns or as CSV rows."""

import io
import sys
from pathlib import Path

import typer
from rich.text import Text

from rollouthub.cli.console import remarks, warn
from rollouthub.cli.export.matching import matching
from rollouthub.errors import ConfigError
from rollouthub.export.file_formats import FileFormat, file_format
from rollouthub.export.record_columns import Table
from rollouthub.export.records import export_jsonl
from rollouthub.store import RunReader, open_run
from rollouthub.store.atomic_files import check_output
from rollouthub.store.notes import RunNotes
from rollouthub.store.record_rows import Chosen
from rollouthub.text import escaped, plain

FORMATS: tuple[FileFormat, ...] = ("jsonl", "parquet", "csv")


def record_format(output: Path | None, asked: str | None) -> FileFormat:
    """The file format of full records: the one asked for, else the one that the file name ends in, else lines of JSON.

    Raises:
        UsageError: the file cannot be written, or its name contradicts the format.
    """
    if output is not None:
        check_output(output)
    form = file_format(output, FORMATS, asked)
    if output is None and form == "parquet":
        raise ConfigError("Parquet goes to a file: name it with -o, for example -o rollouts.parquet")
    return form


def export_records(
    run: Path, form: FileFormat, output: Path | None, table: Table, *, where: str, effective: bool, tokens: bool
) -> bool:
    """Write a run's records that match a filter; if they go to a file, print how many were written. Returns whether any
    matches; if none does, nothing is written, and an existing file stays.

    Raises:
        ConfigError: pyarrow is not installed.
        FilterError: the filter is not valid.
        StoreError: the run cannot be read, or the file cannot be written.
    """
    chosen = matching(run, where, effective=effective)
    with open_run(run) as reader:
        if chosen is not None and not chosen:
            warn(f"nothing to write: no rollout of {reader.info.place} matches {where!r}")
            return False
        count = _written(reader, form, output, table, effective, tokens, chosen)
    if problem := RunNotes.read(run).problem:
        remarks().print(Text(problem, style="yellow"))
    if output is not None:
        typer.echo(f"{count} {table} written to {output}", err=True)
    return True


def _written(
    reader: RunReader,
    form: FileFormat,
    output: Path | None,
    table: Table,
    effective: bool,
    tokens: bool,
    chosen: Chosen | None,
) -> int:
    target = _Shown(form) if output is None else output
    match form:
        case "parquet":
            from rollouthub.export.parquet import export_parquet

            assert output is not None
            return export_parquet(reader, output, table, effective=effective, chosen=chosen)
        case "csv":
            from rollouthub.export.spreadsheet import export_csv

            return export_csv(reader, target, effective=effective, chosen=chosen)
        case "jsonl":
            return export_jsonl(reader, target, effective=effective, with_tokens=tokens, chosen=chosen)


class _Shown(io.StringIO):
    """stdout without control characters: escaped in JSON lines, and removed from CSV on a terminal."""

    def __init__(self, form: FileFormat) -> None:
        super().__init__()
        self._form = form

    def write(self, text: str) -> int:
        if self._form == "jsonl":
            return sys.stdout.write(escaped(text))
        return sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
