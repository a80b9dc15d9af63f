"""Data set rows that name a task in a label and in metadata, for slime, OpenRLHF and MARTI."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.export.task_rows import prompt_messages
from rollouthub.task import Public

_FIELDS = ("environment", "split", "task_id")


def find_task(fields: Mapping[str, Any] | None, label: str | None) -> TaskReference:
    """The task that a row names, in its metadata's fields `environment`, `split` and `task_id`, or in its label.

    Raises:
        ConfigError: the row names no task.
    """
    if fields and all(isinstance(fields.get(name), str) for name in _FIELDS):
        return TaskReference(*(fields[name] for name in _FIELDS))
    if not label:
        raise ConfigError(f"a row names no task: neither its metadata ({', '.join(_FIELDS)}) nor its label does")
    return TaskReference.parse(label)


def prompt_rows(tasks: Iterable[Public], environment: str, split: str) -> Iterator[dict[str, Any]]:
    """One row per task, from its public part: `input` has the messages, `label` and `metadata` name the task."""
    for task in tasks:
        fields = dict(zip(_FIELDS, (environment, split, task.id), strict=True))
        yield {"input": prompt_messages(task), "label": str(TaskReference(**fields)), "metadata": fields}
