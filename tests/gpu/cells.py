"""What a cell is: a process that measures one thing, given JSON as its argument, and prints JSON last."""

import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from inspect import iscoroutinefunction
from typing import Any

import anyio

from tests.gpu.rows import Missing

Given = Mapping[str, Any]
"""The argument of a cell."""
Cell = Callable[[Given], Mapping[str, Any]] | Callable[[Given], Coroutine[Any, Any, Mapping[str, Any]]]
MISSING = "missing"
"""The key under which a cell says what it lacks."""


def answer(cell: Cell) -> None:
    """Run a cell with the JSON of the command line, and print what it found. One that is no coroutine runs without an
    event loop, for trainers that have their own.
    """
    given = json.loads(sys.argv[1])
    found: Any
    try:
        found = anyio.run(cell, given) if iscoroutinefunction(cell) else cell(given)
    except Missing as error:
        found = {MISSING: str(error)}
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
