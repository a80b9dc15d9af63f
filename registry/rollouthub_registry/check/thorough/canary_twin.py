"""A served copy of an environment whose tasks have canaries in their secrets: each seed in another secret field."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rollouthub import BadRow, Public, Secret, Task
from rollouthub.environment import AnyEnvironment
from rollouthub_registry.check.canaries import DIGITS, planted

MOST_FIELDS = 8
_FILE = '''"""An environment with canaries in its secrets, to be attacked."""

from rollouthub.plugins.environments import find_environment
from rollouthub_registry.check.thorough.canary_twin import twin_of

Planted = twin_of(find_environment({target!r}).environment, {key!r}, {seed!r}, __name__)
'''


def canary(key: str, task_id: str, field: str) -> str:
    """The canary for a field of a task, derived from the key."""
    digest = hashlib.sha256(f"{key}\0{task_id}\0{field}".encode()).digest()
    return str(int.from_bytes(digest[:12]) % (9 * 10 ** (DIGITS - 1)) + 10 ** (DIGITS - 1))


def fields_of(task: Task[Public, Secret], key: str) -> list[tuple[str, str, Task[Public, Secret]]]:
    """The fields that can hold a canary, each with its canary and the changed task."""
    return list(planted(task, lambda field: canary(key, task.id, field)))[:MOST_FIELDS]


def twin_of(environment: AnyEnvironment, key: str, seed: int, module: str) -> AnyEnvironment:
    """The environment with canaries in its tasks' secrets: with `seed` + n, in their n-th field."""

    def tasks(cls: AnyEnvironment, config: Any, split: str, asked: int) -> Iterable[Task[Public, Secret] | BadRow]:
        for task in environment.tasks(config, split, seed):
            if isinstance(task, BadRow):
                continue
            twins = fields_of(task, key)
            if 0 <= asked - seed < len(twins):
                yield twins[asked - seed][2]

    body = {"tasks": classmethod(tasks), "__module__": module, "__qualname__": "Planted"}
    return type("Planted", (environment,), body)


def write_twin(folder: Path, target: str, key: str, seed: int) -> str:
    """Write a file that defines the twin, for commands that take an environment's file; returns its path."""
    file = folder / "planted.py"
    file.write_text(_FILE.format(target=target, key=key, seed=seed))
    return str(file)
