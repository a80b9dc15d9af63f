"""The tests that the smoke and the slow name are there: a renamed file or function is seen where all tests run."""

import ast
from functools import cache

import pytest

from tests.conftest import ROOT
from tests.slow import SLOW
from tests.smoke import SMOKE


@cache
def functions(file: str) -> set[str]:
    """The tests that a file defines."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("names", [pytest.param(SMOKE, id="smoke"), pytest.param(SLOW, id="slow")])
def test_every_test_that_is_named_is_there(names: tuple[str, ...]) -> None:
    """Of parameters, `mark_smoke` and `mark_slow` say so where the whole suite is collected."""
    parts = [name.partition("::") for name in names]
    lost = [
        f"{file}::{test}"
        for file, _, test in parts
        if not (ROOT / file).is_file() or (test and test.partition("[")[0] not in functions(file))
    ]
    assert lost == []
    assert len(set(names)) == len(names)
