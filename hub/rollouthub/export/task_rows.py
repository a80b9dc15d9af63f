"""Rows of a trainer's data set: the public part of tasks, and the task's name in a column."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.task import Public

COLUMN = "rollouthub"
"""The column that names the task."""


def prompt_messages(task: Public) -> list[dict[str, str]]:
    """A task's first messages as chat messages. The trainer needs them only for its length filter and logs, because
    the environment sends its own.
    """
    system = [] if task.system is None else [{"role": "system", "content": task.system}]
    if isinstance(task.prompt, str):
        return [*system, {"role": "user", "content": task.prompt}]
    return [*system, *({"role": message.role, "content": message.text} for message in task.prompt)]


def find_task(row: Mapping[str, Any]) -> TaskReference:
    """The task that a row names.

    Raises:
        ConfigError: the row names no task.
    """
    if COLUMN not in row:
        raise ConfigError(
            f"a row has no column {COLUMN!r}, only {', '.join(map(repr, row))}; write it with the adapter"
        )
    return TaskReference.parse(row[COLUMN])


def write_rows(path: Path | str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON lines. Returns the number of rows."""
    count = 0
    with Path(path).open("w") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count
