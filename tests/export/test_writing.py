"""Data sets as files: lines of JSON and Parquet that read back exactly, whole or not at all, in flat memory."""

from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import ConfigError
from rollouthub.export import data_set_files as writing
from rollouthub.export.data_set import DataSet
from rollouthub.export.data_set_files import FILE_FORMATS, NothingToWrite, write_file
from rollouthub.export.file_formats import file_format
from rollouthub.export.recipe import Recipe
from rollouthub.store import open_run
from tests.export.kept import group, keep
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
