"""The patch of a commit as R2E-Gym's rows describe it, in JSON: its Python files that are no tests."""

from pathlib import PurePosixPath
from typing import Any

from rollouthub.authoring.rows import Row
from rollouthub_servers.swe.row_columns import mapping

_SIGNS = {"context": " ", "added": "+", "deleted": "-", "note": "\\ "}
_TESTS = frozenset({"tests", "Tests", "test", "Test"})


def patch_of(row: Row, column: str) -> str:
    """The patch that a column describes.

    Raises:
        DataError: the column does not describe one.
    """
    commit = mapping(row, column)
    try:
        return "".join(_changes(file) for file in commit["file_diffs"])
    except (KeyError, TypeError, AttributeError) as error:
        raise row.error(f"column {column!r} does not describe a commit as R2E-Gym does: {error!r:.80}") from None


def _changes(file: Any) -> str:
    """A file's part of the patch; empty if it is no code, a test, or has no lines that changed."""
    path = str(file["header"]["file"]["path"])
    parts = PurePosixPath(path)
    is_test = parts.name.startswith("test_") or path.endswith("_test.py") or not _TESTS.isdisjoint(parts.parts)
    old, new = file.get("minus_file"), file.get("plus_file")
    if not path.endswith(".py") or is_test or not (old and new):
        return ""
    lines = [f"diff --git a/{path} b/{path}"]
    if misc := file["header"].get("misc_line"):
        lines.append(str(misc))
    lines += [f"--- {old['path']}", f"+++ {new['path']}"]
    for hunk in file["hunks"]:
        about = hunk["descriptor"]
        lines.append(f"@@ -{_range(about['old_range'])} +{_range(about['new_range'])} @@")
        lines += [f"{_SIGNS[line['type']]}{line['content']}" for line in hunk["line_group"]["all_lines"]]
    return "\n".join(lines) + "\n"


def _range(of: Any) -> str:
    return str(of["start"]) if of.get("length") is None else f"{of['start']},{of['length']}"
