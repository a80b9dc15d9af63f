"""Data sets as files: lines of JSON and Parquet that read back exactly, whole or not at all, in flat memory."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from rollouthub.errors import ConfigError
from rollouthub.export import data_set_files as writing
from rollouthub.export.data_set import DataSet
from rollouthub.export.data_set_files import FILE_FORMATS, NothingToWrite, write_file
from rollouthub.export.file_formats import file_format
from rollouthub.export.formats.data_columns import Row
from rollouthub.export.recipe import FORMATS, Recipe
from rollouthub.store import open_run
from tests.export.kept import group, keep, made
from tests.export.made import forked

parquet: Any = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two groups of two."""
    records = [*group(1.0, 0.0, tools_digest="sha256:tools"), *group(0.5, 0.25, name="g2")]
    return keep(tmp_path / "run", *records, repeats=2)


def write(run: Path, out: Path, **recipe: Any) -> int:
    with open_run(run) as reader:
        return write_file(DataSet([reader], Recipe(**recipe)), out, file_format(out, FILE_FORMATS))


def plain(row: Row) -> Row:
    """A row as JSON reads it back."""
    return json.loads(json.dumps(row, default=lambda value: value.tolist()))


@pytest.mark.parametrize("form", FORMATS)
def test_lines_and_tables_read_back_as_the_rows_they_were(run: Path, tmp_path: Path, form: str) -> None:
    recipe: dict[str, Any] = {"format": form, "tokens": True}
    rows = [plain(row) for row in made(run, **recipe).rows]
    assert write(run, tmp_path / "out.jsonl", **recipe) == write(run, tmp_path / "out.parquet", **recipe) == len(rows)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == ([row["trajectory"] for row in rows] if form == "atif" else rows)
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [{name: unpacked(value) for name, value in row.items()} for row in table] == rows


def unpacked(value: Any) -> Any:
    """An object out of a column of JSON."""
    if isinstance(value, list):
        return [unpacked(item) for item in cast(list[Any], value)]
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


def test_a_file_is_written_in_row_groups_of_a_bounded_size(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_GROUP_ROWS", 3)
    write(run, tmp_path / "out.parquet")
    assert parquet.ParquetFile(tmp_path / "out.parquet").metadata.num_row_groups == 2


def test_rows_of_a_fork_are_told_apart_in_a_table(tmp_path: Path) -> None:
    write(keep(tmp_path / "run", forked()), tmp_path / "out.parquet", format="groups")
    table = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert (table["segment"], table["turn_ids"][1]) == ([0, 1], [-1, -1, -1, 2])


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_set_of_nothing_leaves_no_file(run: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(NothingToWrite):
        write(run, tmp_path / name, format="dpo", margin=5.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_write_that_is_cut_short_leaves_what_was_there(run: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    out.write_text("before")

    def interrupt(progress: object) -> None:
        raise KeyboardInterrupt

    with open_run(run) as reader, pytest.raises(KeyboardInterrupt):
        write_file(DataSet([reader], Recipe(), interrupt), out, file_format(out, FILE_FORMATS))
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["run", name])


def test_a_place_that_cannot_be_written_is_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no/out"):
        write(run, tmp_path / "no" / "out.jsonl")
