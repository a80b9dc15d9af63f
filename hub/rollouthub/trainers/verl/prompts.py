"""veRL's prompt data sets: a row for each task with its name and public part only."""

import json
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.export.file_formats import file_format
from rollouthub.export.task_rows import prompt_messages
from rollouthub.messages import media_of
from rollouthub.plugins.extras import pip_install
from rollouthub.store.atomic_files import complete_file
from rollouthub.task import Public

AGENT = "rollouthub"
"""The name of the hub's agent loop in the file `agent_loop_config_path`."""
_ROWS = 1000


def prompt_rows(
    tasks: Iterable[Public], environment: str, split: str, *, agent_name: str | None = AGENT
) -> Iterator[dict[str, Any]]:
    """Rows in veRL's format; the `ground_truth` is the task's reference. If `agent_name` is None, the column is left
    out.

    `tasks` come from `RolloutWorker.tasks` or `Scorer.tasks`, which give only the public part.

    Raises:
        ConfigError: `agent_name` is None, and a task shows pictures, which veRL's own loop would play without them.
    """
    for index, task in enumerate(tasks):
        reference = str(TaskReference(environment, split, task.id))
        if agent_name is None and not isinstance(task.prompt, str) and media_of(task.prompt):
            raise ConfigError(
                f"task {task.id!r} of {environment} shows pictures, and a row for veRL's own loop has words alone; "
                "leave agent_name at its default, so that the hub plays the task, or leave the task out"
            )
        row: dict[str, Any] = {
            "data_source": environment,
            "prompt": prompt_messages(task),
            "ability": task.source or environment,
            "reward_model": {"style": "rule", "ground_truth": reference},
            "extra_info": {"index": index, "split": split, "task": reference},
        }
        if agent_name is not None:
            row["agent_name"] = agent_name
        yield row


def write_prompts(rows: Iterable[dict[str, Any]], out: Path | str) -> int:
    """Write rows as JSON lines or Parquet, chosen by the file's name. Returns the number of rows.

    Raises:
        ConfigError: the name's format is not supported, the file's folder cannot be written, there are no rows, or
        pyarrow is not installed.
        StoreError: the file could not be written.
    """
    out = Path(out)
    form = file_format(out, ("parquet", "jsonl"))
    with complete_file(out) as path:
        count = _write_lines(rows, path) if form == "jsonl" else _write_parquet(rows, path)
        if not count:
            raise ConfigError("there are no tasks to write; say which environment and split are meant")
    return count


def _write_lines(rows: Iterable[dict[str, Any]], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count


def _write_parquet(rows: Iterable[dict[str, Any]], path: Path) -> int:
    """Write rows as Parquet, in chunks."""
    try:
        # Imported on use: it is an extra, and takes its time. It has no type stubs.
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(f"writing Parquet needs pyarrow: {pip_install('data')}") from error
    source, count, writer = iter(rows), 0, None
    try:
        while chunk := list(islice(source, _ROWS)):
            table = arrow.Table.from_pylist(chunk, schema=None if writer is None else writer.schema)
            if writer is None:
                writer = parquet.ParquetWriter(str(path), table.schema)
            writer.write_table(table)
            count += len(chunk)
    finally:
        if writer is not None:
            writer.close()
    return count
