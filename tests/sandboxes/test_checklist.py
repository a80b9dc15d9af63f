"""The table of what sandboxes survive: every row is there, and every test that a row names."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "docs" / "sandbox-checklist.md"
ROWS = re.findall(r"^\| (\d+) \|.*\|$", TABLE.read_text(), flags=re.M)
NAMED = sorted(set(re.findall(r"`([\w./]+\.py::\w+)`", TABLE.read_text())))


@cache
def names_of(file: Path) -> set[str]:
    """Names of the test functions of a file."""
    tree = ast.parse(file.read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {function.name for function in functions if function.name.startswith("test_")}


def test_every_row_is_there_and_names_a_test() -> None:
    assert [int(row) for row in ROWS] == list(range(1, 27))
    for line in TABLE.read_text().splitlines():
        if re.match(r"\| \d+ \|", line):
            assert "::test_" in line, line


@pytest.mark.parametrize("named", NAMED)
def test_a_test_that_the_table_names_exists(named: str) -> None:
    path, _, name = named.partition("::")
    assert name in names_of((HERE / path).resolve())
