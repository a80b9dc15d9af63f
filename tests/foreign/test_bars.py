"""Every format of the importer door has a row of the bars, and the page has a place for it."""

import ast
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from rollouthub.plugins.importers import IMPORTERS
from tests.foreign.bar import Bar
from tests.foreign.bars import DOCS, FORMATS, between, rows_in, written

PAGE = """<!-- bars -->
| format | compared | … |
| --- | --- | --- |
| Old | rewards | 1 |
| Zoo | rewards | 2 |
<!-- /bars -->
<!-- bar old -->
| what was seen |
<!-- /bar old -->
"""


def test_every_importer_has_a_row() -> None:
    covered = [importer for importers in FORMATS.values() for importer in importers]
    assert sorted(covered) == sorted(each.name for each in entry_points(group=IMPORTERS))


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_measured_by_its_module(name: str) -> None:
    module = ast.parse(Path(DOCS.parents[1] / "tests" / "foreign" / f"{name}.py").read_text(encoding="utf-8"))
    functions = {each.name: each for each in module.body if isinstance(each, ast.FunctionDef)}
    assert len(functions["measure"].args.args) == 2
    assert ast.unparse(functions["measure"].returns or ast.Constant("")) == Bar.__name__


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"harbor"}))  # whose row says all
def test_the_page_has_a_place_for_each_formats_own_table(name: str) -> None:
    assert "a table" in between(DOCS.read_text(encoding="utf-8"), f"bar {name}", "a table")


def test_a_row_is_written_anew_and_others_stay() -> None:
    page = written(PAGE, "old", Bar("Old", "rewards", 9, 8, 7, 1, 0.5, table="| anew |"))
    assert rows_in(page) == {
        "Old": "| Old | rewards | 9 | 8 | 7 | 1 | 0.50 |  |",
        "Zoo": "| Zoo | rewards | 2 |",
    }
    assert "<!-- bar old -->\n| anew |\n<!-- /bar old -->" in page
