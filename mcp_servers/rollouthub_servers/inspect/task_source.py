"""Tasks in a folder, a file or a wheel: which functions there are, what they need; and the program that runs one."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub_servers.foreign.copied_source import left_out
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import ForeignLock, foreign_home
from rollouthub_servers.inspect.task_record import CODE, TaskRecord

RELEASE = "0.3.285"
"""The version of inspect_ai that tasks run on, where their project takes it."""
_OWN, _FOREIGN = "rollouthub_servers.inspect", "rollouthub_servers.foreign"
DRIVER = f"{_OWN}.inspect_driver"
MODULES = (
    *(f"{_FOREIGN}.{name}" for name in ("forked_serving", "code_failures", "local_datasets", "said_steps")),
    *(f"{_OWN}.{name}" for name in ("task_world", "task_rollout", "asked_model")),
)
_SOURCE_BYTES, _SOURCES = 2 << 20, 20_000
_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # a session is forked, and would inherit that thread's locks
    "INSPECT_DISPLAY": "log",  # tables in the log cost more than the evaluation
    "INSPECT_LOG_LEVEL": "warning",
}


@dataclass(frozen=True)
class TaskFunction:
    """A function that gives a task."""

    id: str
    """Its name; with that of its file before it where several have one name."""
    function: str
    file: Path
    """Below the folder."""

    def place(self, args: Mapping[str, JsonValue], *, is_installed: bool) -> dict[str, JsonValue]:
        """Where the driver finds it."""
        place: dict[str, JsonValue] = {"file": self.file.as_posix(), "task": self.function, "args": dict(args)}
        return {**place, "module": ".".join(self.file.with_suffix("").parts)} if is_installed else place


def find_tasks(root: Path, only: Path | None = None) -> list[TaskFunction]:
    """The functions with `@task` at or below a folder, read without running anything; `only` is the one file asked.

    Raises:
        ConfigError: a file cannot be read as Python, or there are too many.
    """
    found = [(name, file) for file in _sources(root, only) for name in _functions(root / file)]
    names = [name for name, _ in found]
    return [
        TaskFunction(name if names.count(name) == 1 else f"{'.'.join(file.with_suffix('').parts)}.{name}", name, file)
        for name, file in found
    ]


def _sources(root: Path, only: Path | None) -> Iterator[Path]:
    if only is not None:
        yield only
        return
    for number, file in enumerate(sorted(root.rglob("*.py"))):
        below = file.relative_to(root)
        if number > _SOURCES:
            raise ConfigError(f"{root}: it holds more than {_SOURCES:,} Python files")
        # A link of a repository may lead to any file of this machine.
        if not file.is_symlink() and not left_out("", below.parts) and file.stat().st_size <= _SOURCE_BYTES:
            yield below


def _functions(file: Path) -> Iterator[str]:
    text = file.read_bytes()
    if b"@task" not in text and b".task" not in text:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # what the folder holds besides is not the import's
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(map(_is_task, node.decorator_list)):
            yield node.name


def _is_task(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(named) in ("task", "inspect_ai.task")


def declared_by(root: Path) -> list[str]:
    """What the project of a folder asks for, if it has one.

    Raises:
        ConfigError: its file cannot be read.
    """
    file = root / "pyproject.toml"
    if not file.is_file():
        return []
    try:
        project: Any = tomllib.loads(file.read_text(encoding="utf-8")).get("project")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    asked = cast(dict[str, Any], project).get("dependencies") if isinstance(project, dict) else None
    return [str(each) for each in cast(list[Any], asked)] if isinstance(asked, list) else []


def requirements_of(declared: Sequence[str], pinned: str | None) -> tuple[str, ...]:
    """What tasks need: inspect_ai in the version that is used here (`pinned`, a whole requirement, where given).

    Raises:
        ConfigError: something is no published wheel.
    """
    found: list[str] = []
    library = Requirement("inspect_ai")
    for text in declared:
        try:
            needed = Requirement(text)
        except InvalidRequirement as error:
            raise ConfigError(f"{text[:120]!r} is no requirement: {error}") from error
        if needed.url is not None:
            raise ConfigError(f"{text[:160]!r} is no published wheel")
        if canonicalize_name(needed.name) == "inspect-ai":
            library = needed
        elif needed.marker is None or needed.marker.evaluate({"extra": ""}):
            found.append(re.sub(r"\s*;.*", "", text))
    if pinned is not None:
        return pinned, *found
    takes = library.specifier.contains(RELEASE, prereleases=True)
    return (f"inspect_ai=={RELEASE}" if takes else f"inspect_ai{library.specifier}"), *found


def program_of(data: Path, record: TaskRecord, lock: ForeignLock) -> ForeignProgram:
    """What runs a task of an imported folder; installed where it is not. Blocks."""
    code = data / CODE if lock.wheel is None else foreign_home().unpacked(lock.wheel)
    folders = {name: str(data / folder) for name, folder in record.datasets.items()}
    place: dict[str, JsonValue] = {"folder": str(code), **record.place}
    return tasks_program(f"Inspect task {record.name!r}", lock, code, place, folders, record.absent)


def tasks_program(
    name: str,
    lock: ForeignLock,
    code: Path,
    place: dict[str, JsonValue] | None,
    datasets: Mapping[str, str],
    absent: Sequence[str],
) -> ForeignProgram:
    """What runs a task; without a place, what describes those that it is asked for. Blocks where it installs."""
    return ForeignProgram(
        name=name,
        python=foreign_home().python(lock.dependencies),
        module=DRIVER,
        modules=MODULES,
        arguments={"place": place, "datasets": dict(datasets), "absent": list(absent)},
        shown=tuple(Path(folder) for folder in datasets.values()),
        path=(code,),
        variables=_VARIABLES,
    )
