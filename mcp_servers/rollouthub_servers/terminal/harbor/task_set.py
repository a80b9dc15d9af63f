"""Sets of tasks: a folder, a commit of a git repository, a `registry.json`, or a `dataset.toml` beside its tasks."""

import hashlib
import json
import shutil
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pydantic import Field, TypeAdapter, ValidationError

from rollouthub.errors import ConfigError, invalid_fields
from rollouthub.plugins.importers import ImportSource, Note, silent
from rollouthub.values import Frozen
from rollouthub_servers.terminal.harbor.dataset import TASK_FILE, find_tasks
from rollouthub_servers.terminal.harbor.git_commit import GitCommit

MOST_BYTES = 64 << 20
"""Most bytes of a registry or a dataset's file."""
_DIGESTED = ("environment", "tests", "solution", "steps")
_DIGESTED_FILES = (TASK_FILE, "instruction.md", "README.md", "trajectory.json")
_NOT_DIGESTED = ("__pycache__", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~", ".harborignore")


@dataclass(frozen=True)
class SetTask:
    """A task of a set."""

    id: str
    folder: Path | None
    problem: str = ""
    """Why there is no folder."""


class _Row(Frozen, extra="ignore"):
    name: str = Field(min_length=1)
    git_url: str | None = None
    git_commit_id: str | None = None
    path: str


class _Registered(Frozen, extra="ignore"):
    name: str
    version: str = ""
    tasks: tuple[_Row, ...]


class _Reference(Frozen, extra="ignore"):
    name: str = Field(min_length=1)
    digest: str


class _Dataset(Frozen, extra="ignore"):
    tasks: tuple[_Reference, ...]


@contextmanager
def opened_set(source: ImportSource, note: Note = silent) -> Generator[list[SetTask]]:
    """The tasks of a source; what had to be fetched is removed at the end.

    Raises:
        ConfigError: the source offers no tasks, or cannot be read or fetched.
    """
    work = Path(tempfile.mkdtemp(prefix="rollouthub-set-"))
    try:
        if source.kind == "folder":
            yield _below(source.folder)
        elif source.kind == "git":
            commit = GitCommit.of(source.text)
            note(f"fetching {commit.url} at {commit.commit[:12]}")
            yield _below(commit.fetch(work))
        elif Path(source.text).suffix == ".json":
            yield _registered(Path(source.text), source.patterns, work, note)
        else:
            yield _dataset(Path(source.text))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _below(folder: Path) -> list[SetTask]:
    return [SetTask(task_id, place) for task_id, place in find_tasks(str(folder))]


def _read(file: Path) -> Any:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ValueError(f"it is longer than {MOST_BYTES:,} bytes")
        data = file.read_bytes()
        return json.loads(data) if file.suffix == ".json" else tomllib.loads(data.decode())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error


def _registered(file: Path, patterns: Sequence[str], work: Path, note: Note) -> list[SetTask]:
    """The tasks of a registry; only those that are asked for are fetched."""
    try:
        datasets = TypeAdapter(tuple[_Registered, ...]).validate_python(_read(file))
    except ValidationError as error:
        raise ConfigError(f"{file} is no registry of tasks: {invalid_fields(error)}") from error
    found: list[SetTask] = []
    wanted: dict[tuple[str, str], list[tuple[str, _Row]]] = defaultdict(list)
    for dataset in datasets:
        of = f"{dataset.name}@{dataset.version}".rstrip("@")
        for row in dataset.tasks:
            task_id = row.name if len(datasets) == 1 else f"{of}/{row.name}"
            if patterns and not any(fnmatchcase(task_id, pattern) for pattern in patterns):
                found.append(SetTask(task_id, None, "it was not asked for"))
            elif problem := _problem(task_id, row, file.parent):
                found.append(SetTask(task_id, None, f"{file.name}: {task_id}: {problem}"))
            elif row.git_url is None:
                found.append(_task(task_id, file.parent / row.path, f"path = {row.path!r}"))
            else:
                wanted[row.git_url, str(row.git_commit_id)].append((task_id, row))
    for number, ((url, commit), rows) in enumerate(wanted.items()):
        note(f"fetching {url} at {commit[:12]}: {len(rows)} tasks")
        place = work / str(number)
        place.mkdir()
        try:
            GitCommit(url, commit).fetch(place, sorted({row.path for _, row in rows}))
        except ConfigError as error:
            found += [SetTask(task_id, None, f"git_url = {url!r}: {error}") for task_id, _ in rows]
        else:
            found += [_task(task_id, place / row.path, f"path = {row.path!r}") for task_id, row in rows]
    if not found:
        raise ConfigError(f"{file} lists no tasks")
    return sorted(found, key=lambda task: task.id)


def _problem(task_id: str, row: _Row, folder: Path) -> str:
    """Why a row of a registry is not followed; empty if it is."""
    for key, text in (("name", task_id), ("path", row.path)):
        if ".." in PurePosixPath(text).parts or text.startswith(("/", "-", ":")) or "\0" in text:
            return f"{key} = {text!r} leads out of the set"
    if row.git_url is None:
        return ""
    try:
        GitCommit(row.git_url, row.git_commit_id or "").checked(row.git_url)
        parts = urlsplit(row.git_url)
    except (ConfigError, ValueError) as error:
        return f"git_url, git_commit_id = {row.git_commit_id!r}: {error}"
    if parts.username is not None or parts.password is not None:
        return "git_url has a login in it"
    if parts.scheme == "file" and not Path(url2pathname(parts.path)).resolve().is_relative_to(folder.resolve()):
        return "git_url: a repository of this machine has to lie below the registry's folder"
    return ""


def _task(task_id: str, folder: Path, named: str) -> SetTask:
    if not (folder / TASK_FILE).is_file():
        return SetTask(task_id, None, f"{named}: there is no {TASK_FILE}")
    return SetTask(task_id, folder)


def _dataset(file: Path) -> list[SetTask]:
    """The tasks of a dataset's file, found by name in the folders beside it, and held to their digests."""
    try:
        listed = _Dataset.model_validate(_read(file))
    except ValidationError as error:
        raise ConfigError(f"{file} is no dataset.toml: {invalid_fields(error)}") from error
    beside: dict[str, list[Path]] = defaultdict(list)
    for _, folder in find_tasks(str(file.parent)):
        try:
            about = tomllib.loads((folder / TASK_FILE).read_text("utf-8")).get("task")
        except (OSError, ValueError):
            continue  # nothing can name it
        if isinstance(about, dict):
            beside[str(about.get("name"))].append(folder)  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
    found: dict[str, SetTask] = {}
    for task in listed.tasks:
        places = beside.get(task.name, [])
        right = [folder for folder in places if f"sha256:{task_digest(folder)}" == task.digest]
        why = f"tasks.name = {task.name!r}: no task of this name is beside {file.name}"
        if places:
            why = f"tasks.digest of {task.name!r}: {places[0].name} beside {file.name} has other files"
        found[task.name] = SetTask(task.name, right[0]) if right else SetTask(task.name, None, why)
    if not found:
        raise ConfigError(f"{file} lists no tasks")
    return [found[name] for name in sorted(found)]


def task_digest(folder: Path) -> str:
    """A task's digest as Harbor's registry computes it, for tasks without ignore files of their own."""
    files = [folder / name for name in _DIGESTED_FILES if (folder / name).is_file()]
    for place in _DIGESTED:
        files += [path for path in (folder / place).rglob("*") if path.is_file()]
    names = {path.relative_to(folder).as_posix(): path for path in files}
    outer = hashlib.sha256()
    for name in sorted(names):
        if not any(fnmatch(part, pattern) for part in name.split("/") for pattern in _NOT_DIGESTED):
            outer.update(f"{name}\0{hashlib.sha256(names[name].read_bytes()).hexdigest()}\n".encode())
    return outer.hexdigest()
