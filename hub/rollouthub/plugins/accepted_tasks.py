"""An environment that offers only the tasks that its env.toml lists under `[accepted]`."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rollouthub.environment import AnyEnvironment, EnvironmentConfig
from rollouthub.errors import ConfigError, DataError
from rollouthub.plugins.manifest import AcceptedTasks
from rollouthub.task import BadRow, Public, Secret, Task

_Tasks = Iterator[Task[Public, Secret] | BadRow]


def prompt_digest(public: Public) -> str:
    """A digest of what an agent is told of a task: the same wherever the task's files lie."""
    told = public.model_dump_json(include={"id", "system", "prompt"})
    return f"sha256:{hashlib.sha256(told.encode(errors='replace')).hexdigest()[:32]}"


def only_accepted(environment: AnyEnvironment, accepted: Mapping[str, AcceptedTasks], manifest: Path) -> AnyEnvironment:
    """The environment with just the listed tasks, in its own order.

    A task that is not there as it was listed is a bad row. The lists belong to what its digest is made of.

    Raises:
        ConfigError: a list cannot be read.
    """
    files = {split: manifest.parent / section.file for split, section in accepted.items()}
    digests = {split: _read(file, f"{manifest}: accepted.{split}") for split, file in files.items()}

    def splits(cls: AnyEnvironment, config: EnvironmentConfig) -> tuple[str, ...]:
        known = environment.splits(config)
        for split in accepted:
            if split not in known:
                raise ConfigError(f"{manifest}: accepted.{split}: its splits are {', '.join(known)}")
        return tuple(accepted)

    def tasks(cls: AnyEnvironment, config: Any, split: str, seed: int) -> _Tasks:
        left = dict(digests[split])
        for task in environment.tasks(config, split, accepted[split].seed):
            if isinstance(task, BadRow) or task.id not in left or left[task.id] != prompt_digest(task.public):
                continue
            del left[task.id]
            yield task
            if not left:
                return
        for task_id in left:
            yield BadRow(DataError(f"task {task_id!r} is not there as it was accepted", files[split]))

    def sources(cls: AnyEnvironment) -> Sequence[Path]:
        return (*environment.sources(), *files.values())

    own: dict[str, Any] = {
        "__module__": environment.__module__,
        "__qualname__": environment.__qualname__,
        "__doc__": environment.__doc__,
        "config_type": environment.config_type,
        "splits": classmethod(splits),
        "tasks": classmethod(tasks),
        "sources": classmethod(sources),
    }
    return type(environment.__name__, (environment,), own)


def _read(file: Path, place: str) -> dict[str, str]:
    """Task id → digest of its prompt."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ConfigError(f"{place}: {str(file)!r} cannot be read: {reason}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
            task_id, digest = row["id"], row["prompt"]
        except (ValueError, TypeError, KeyError, RecursionError):
            task_id = digest = None
        if not isinstance(task_id, str) or not isinstance(digest, str):
            raise ConfigError(
                f"{file}:{number}: write an object with the texts `id` and `prompt`, the digest of its prompt"
            )
        found[task_id] = digest
    if not found:
        raise ConfigError(f"{place}: {str(file)!r} lists no task")
    return found
