"""Runs a program whose tests use `unittest`, and writes each test's result to a file; for Python 3.5 and later.

It is placed beside the tests and run by their Python, without the hub's packages: `recorder.py REPORT PROGRAM …`.
"""

import json
import runpy
import sys
import unittest
from pathlib import Path
from typing import Any, cast

FOUND = cast("dict[str, bool]", {})


def note(result: Any, test: Any, is_good: bool) -> None:
    """Record a test's result by its id and by the line that the runner shows, often from its docstring."""
    names = [str(test)]
    if hasattr(result, "getDescription"):
        names.append(result.getDescription(test).strip().split("\n")[-1].strip())
    for name in names:
        FOUND[name] = is_good


def watch(method: str, is_good: bool) -> None:
    """Wrap a method of every test result so that it records the test."""
    original = getattr(unittest.TestResult, method)

    def noting(self: Any, test: Any, *more: Any) -> Any:
        if method != "addSubTest":
            note(self, test, is_good)
        elif more[-1] is not None:
            note(self, test, False)
        return original(self, test, *more)

    setattr(unittest.TestResult, method, noting)


def main() -> None:
    """Run the program, and write the report however it ends."""
    report, program = sys.argv[1], sys.argv[2]
    sys.argv = sys.argv[2:]
    sys.path[0] = program.rpartition("/")[0] or "."
    watch("addSuccess", True)
    for method in ("addFailure", "addError", "addSkip", "addExpectedFailure", "addUnexpectedSuccess", "addSubTest"):
        watch(method, False)
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        Path(report).write_text(json.dumps(FOUND))


if __name__ == "__main__":
    main()
