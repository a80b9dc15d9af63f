"""Reads the columns of a row: texts, lists of tests, and files, each refused by its name if it is something else."""

import json
from typing import Any, cast

from rollouthub.authoring.rows import Row


def text(row: Row, column: str, default: str | None = None) -> str:
    """A column's text; without a `default` it must be there and not be blank.

    Raises:
        DataError: it is something else.
    """
    value = row.values.get(column)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (default is None and not value.strip()):
        known = ", ".join(str(name) for name in row.values)
        raise row.error(f"column {column!r} must be text, this is {value!r:.60}; the columns are: {known}")
    return value


def word(row: Row, column: str) -> str:
    """A column's text, which has no white space in it: it becomes a part of a line.

    Raises:
        DataError: it is something else.
    """
    value = text(row, column)
    if value.split() != [value]:
        raise row.error(f"column {column!r} = {value!r:.80}: there is white space in it")
    return value


def names(row: Row, columns: tuple[str, ...], *, required: bool = True) -> tuple[str, ...]:
    """The tests that the first of these columns lists, as a list or as its JSON.

    Raises:
        DataError: it lists something else, or nothing although that is `required`.
    """
    value: Any = next((row.values[column] for column in columns if row.values.get(column) is not None), None)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise row.error(f"column {columns[0]!r} must be a list of tests, this is {value!r:.60}") from None
    found = cast("list[Any]", [] if value is None else value)
    if not isinstance(found, list) or not all(isinstance(name, str) and name for name in found):  # pyright: ignore[reportUnnecessaryIsInstance]  # anybody's data
        raise row.error(f"column {columns[0]!r} must be a list of tests, this is {value!r:.60}")
    if required and not found:
        raise row.error(f"column {columns[0]!r} names no test; one that fails at first must be there")
    return tuple(found)


def files(row: Row, column: str) -> dict[str, str]:
    """Path → text, of files below the repository.

    Raises:
        DataError: it is something else, or a path leads out of the repository.
    """
    value: Any = row.values.get(column)
    found = cast("dict[Any, Any]", {} if value is None else value)
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
        raise row.error(f"column {column!r} must be texts by path, this is {value!r:.60}")
    for path in found:
        if not is_below(str(path)):
            raise row.error(f"column {column!r}: {path!r} leads out of the repository")
    return {str(path): each for path, each in found.items()}


def mapping(row: Row, column: str) -> dict[str, Any]:
    """A column that holds values by name, as such or as their JSON.

    Raises:
        DataError: it is something else.
    """
    value: Any = row.values.get(column)
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise row.error(f"column {column!r} must be values by name, or their JSON; this is {value!r:.60}")
    return cast("dict[str, Any]", found)


def is_below(path: str) -> bool:
    """Whether a relative path stays below its folder, and is taken for no option of a command."""
    return not path.startswith(("/", "-")) and ".." not in path.split("/")
