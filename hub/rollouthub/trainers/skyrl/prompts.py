"""A data set for SkyRL's `PromptDataset`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rollouthub.export import TaskReference
from rollouthub.export.task_rows import COLUMN, prompt_messages, write_rows
from rollouthub.task import Public

ENV_CLASS = "rollouthub"


def prompt_rows(tasks: Iterable[Public], environment: str, split: str) -> Iterator[dict[str, Any]]:
    """One row for each task: `prompt`, `env_class`, and the task's name, which SkyRL passes on in `env_extras`."""
    for task in tasks:
        reference = TaskReference(environment, split, task.id)
        yield {"prompt": prompt_messages(task), "env_class": ENV_CLASS, COLUMN: str(reference)}


def write_prompts(path: Path | str, tasks: Iterable[Public], environment: str, split: str) -> int:
    """Write `prompt_rows` as JSON lines, for `data.train_data=['PATH.jsonl']`. Returns the number of rows."""
    return write_rows(path, prompt_rows(tasks, environment, split))
