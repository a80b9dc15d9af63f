"""Data sets for TRL: one row per task, whose prompt carries the task's name."""

from collections.abc import Sequence
from typing import Any, cast

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.messages import Message
from rollouthub.task import Public
from rollouthub.trainers.stream import BlockingWorker
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.trl.prompt_images import IMAGES

TASK = "task"
"""The column of a row, and the key of the prompt's last message, that holds the task's name.

A `rollout_func` gets only the prompts of the rows; a message may have additional keys, which chat templates ignore.
"""


def prompts_of(worker: BlockingWorker, environment: str | None = None, split: str | None = None) -> Any:
    """A `datasets.Dataset` of a worker's tasks, for `train_dataset`: `prompt`, `task` and `source`.

    Raises:
        UsageError: there is no such environment or split.
    """
    return as_dataset(prompt_rows(worker, environment, split))


def as_dataset(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as a `datasets.Dataset`; pictures are decoded when a row is read."""
    datasets: Any = system_module("datasets")
    if not any(IMAGES in row for row in rows):
        return datasets.Dataset.from_list(list(rows))
    written = [{**row, IMAGES: [{"bytes": raw, "path": None} for raw in row[IMAGES]]} for row in rows]
    return datasets.Dataset.from_list(written).cast_column(IMAGES, datasets.List(datasets.Image(mode="RGB")))


def prompt_rows(
    worker: BlockingWorker, environment: str | None = None, split: str | None = None
) -> list[dict[str, Any]]:
    """The rows of `prompts_of` as dictionaries; of all environments of the worker unless one is named.

    Raises:
        UsageError: there is no such environment or split.
    """
    names = worker.environments if environment is None else (environment,)
    return [
        task_row(TaskReference(name, split or "", public.id), public)
        for name in names
        for public in worker.tasks(name, split)
    ]


def task_row(reference: TaskReference, public: Public) -> dict[str, Any]:
    """The row of one task: the public prompt, and the task's name."""
    messages = [{"role": message.role, "content": message.text, TASK: None} for message in conversation(public)]
    messages[-1][TASK] = str(reference)
    return {"prompt": messages, TASK: str(reference), "source": public.source}


def conversation(public: Public) -> Sequence[Message]:
    """The first messages of a task."""
    said = (Message(role="user", content=public.prompt),) if isinstance(public.prompt, str) else public.prompt
    return said if public.system is None else (Message(role="system", content=public.system), *said)


def task_of(prompt: object) -> TaskReference:
    """The task that a row's prompt names.

    Raises:
        ConfigError: the prompt names no task.
    """
    last: object = cast(list[object], prompt)[-1] if isinstance(prompt, list) and prompt else None
    text = cast(dict[str, object], last).get(TASK) if isinstance(last, dict) else None
    if not isinstance(text, str):
        raise ConfigError(
            f"the prompt {prompt!r:.200} names no task; make the data set with "
            f"rollouthub.trainers.trl.prompts_of(worker), whose last message has the key {TASK!r}"
        )
    return TaskReference.parse(text)
