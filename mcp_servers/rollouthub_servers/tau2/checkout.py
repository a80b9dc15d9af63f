"""`Checkout`: τ²-bench on this machine: its domains, their tasks, what it needs, and the program that runs it."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub_servers.foreign.copied_folder import copy_file, copy_folder
from rollouthub_servers.foreign.program import ForeignProgram

CODE = "code"
_DRIVER = "rollouthub_servers.tau2.tau2_driver"
_PACKAGE, _DOMAINS, _SIMULATOR = Path("src/tau2"), Path("data/tau2/domains"), Path("data/tau2/user_simulator")
_NEEDED = frozenset({"addict", "deepdiff", "docstring-parser", "loguru", "python-dotenv", "pyyaml", "toml"})
"""Of what τ²-bench asks for, that which its domains and its evaluator import; the rest serves models and voices."""
_UNNAMED = ("pydantic>=2.11", "rank-bm25>=0.2.2", "numpy>=1.24")
"""Requirements that only arrive with a distribution that is left out, or that τ²-bench lists among its extras."""
_TASK_FILES = ("tasks.json", "tasks_full.json", "tasks_small.json")
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class FoundTask:
    """A task of a checkout, as its file holds it."""

    domain: str
    task: dict[str, Any]
    splits: tuple[str, ...]

    @property
    def id(self) -> str:
        """The task's id, unique over all domains."""
        return f"{self.domain}/{self.task['id']}"


@dataclass(frozen=True)
class Checkout:
    """A checkout of τ²-bench: a folder with `src/tau2` and `data/tau2`."""

    root: Path

    @classmethod
    def of(cls, folder: Path) -> "Checkout":
        """Return the checkout in a folder.

        Raises:
            ConfigError: the folder is not a checkout of τ²-bench.
        """
        if not (folder / _PACKAGE / "evaluator").is_dir() or not (folder / _DOMAINS).is_dir():
            raise ConfigError(f"{folder} is no checkout of τ²-bench: it lacks {_PACKAGE}/evaluator or {_DOMAINS}")
        return cls(folder)

    @property
    def domains(self) -> list[str]:
        """The domains that have tasks."""
        return sorted(
            each.name for each in (self.root / _DOMAINS).iterdir() if each.is_dir() and self._files(each.name)
        )

    def refusals(self, domain: str) -> tuple[str, ...]:
        """The reasons why a domain cannot be played here; empty where it can."""
        code, data = _PACKAGE / "domains" / domain / "environment.py", _DOMAINS / domain
        reasons: list[str] = []
        if not (self.root / code).is_file():
            reasons.append(f"{code} is not in this checkout")
        if not any((self.root / data / name).is_file() for name in ("db.json", "db.toml")):
            reasons.append(f"{data}/db.json is not in this checkout, nor db.toml")
        return tuple(reasons)

    def tasks(self, domain: str) -> Iterator[FoundTask]:
        """A domain's tasks, one for each id.

        Raises:
            ConfigError: a file is not a file of tasks.
        """
        splits = self._splits(domain)
        seen: set[str] = set()
        for file in self._files(domain):
            for task in _tasks_in(file):
                if task["id"] not in seen:
                    seen.add(task["id"])
                    yield FoundTask(domain, task, tuple(name for name, ids in splits.items() if task["id"] in ids))

    def _files(self, domain: str) -> list[Path]:
        folder = self.root / _DOMAINS / domain
        found = [folder / name for name in _TASK_FILES if (folder / name).is_file()]
        return found[:1] or sorted((folder / "tasks").glob("task_*.json"))

    def _splits(self, domain: str) -> dict[str, frozenset[str]]:
        file = self.root / _DOMAINS / domain / "split_tasks.json"
        if not file.is_file():
            return {}
        found = _read(file)
        try:
            return {str(name): frozenset(map(str, ids)) for name, ids in found.items()}
        except (AttributeError, TypeError) as error:
            raise ConfigError(f"{file} is no object of lists of ids") from error

    @property
    def requirements(self) -> list[str]:
        """The requirements to install for the checkout.

        Raises:
            ConfigError: its pyproject.toml is missing, or names none of them.
        """
        try:
            project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.root / 'pyproject.toml'} cannot be read: {error}") from error
        wanted = [Requirement(line) for line in project.get("project", {}).get("dependencies", ())]
        found = [each for each in wanted if canonicalize_name(each.name) in _NEEDED]
        missing = sorted(_NEEDED - {canonicalize_name(each.name) for each in found})
        return [*map(str, found), *missing, *_UNNAMED]

    @property
    def revision(self) -> str | None:
        """The version that the checkout's own metadata names."""
        try:
            project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
            return f"tau2 {project['project']['version']}"
        except (OSError, ValueError, KeyError):
            return None

    def keep(self, data: Path, domains: Sequence[str]) -> None:
        """Copy what some domains need to be played into a package's folder: code and data, without other domains'
        data.
        """
        code = data / CODE
        copy_folder(self.root / _PACKAGE, code / _PACKAGE, _but_python, within=self.root)
        copy_folder(self.root / _SIMULATOR, code / _SIMULATOR, within=self.root)
        for domain in domains:
            copy_folder(self.root / _DOMAINS / domain, code / _DOMAINS / domain, _but_worlds, within=self.root)
        if (self.root / "LICENSE").is_file():
            copy_file(self.root / "LICENSE", code / "LICENSE", self.root)


def program_of(
    data: Path, python: Path, domains: Sequence[str], *, retrieval: str, call_seconds: float
) -> ForeignProgram:
    """The program that runs the driver over the code in a package's folder."""
    code = data / CODE
    told: dict[str, JsonValue] = {"code": str((code / "src").absolute()), "domains": [*domains]}
    return ForeignProgram(
        name="τ²-bench",
        python=python,
        module=_DRIVER,
        arguments={**told, "retrieval": retrieval, "seconds": call_seconds},
        shown=(code,),
        path=(code / "src",),
        variables={"TAU2_DATA_DIR": str((code / "data").absolute()), "OPENBLAS_NUM_THREADS": "1"},
    )


def _but_python(folder: str, names: list[str]) -> list[str]:
    kept = {name for name in names if name.endswith(".py")}
    return [name for name in names if name not in kept and (name == "__pycache__" or not Path(folder, name).is_dir())]


def _but_worlds(folder: str, names: list[str]) -> list[str]:
    """Tasks are kept as rows, and voices are not played."""
    apart = ("tasks", "task_issues", "workflows", "split_tasks.json", "audio_difficulty.json")
    return [name for name in names if name in apart or name.startswith("tasks_") or name == "tasks.json"]


def _tasks_in(file: Path) -> list[dict[str, Any]]:
    found = _read(file)
    if isinstance(found, dict):
        found = cast("dict[str, Any]", found).get("tasks", [found])
    if not isinstance(found, list):
        raise ConfigError(f"{file} is no list of tasks")
    tasks = cast("list[Any]", found)
    for number, task in enumerate(tasks):
        if not isinstance(task, dict) or not isinstance(cast("dict[str, Any]", task).get("id"), str):
            raise ConfigError(f"{file}: entry {number} is no task with an id")
    return tasks


def _read(file: Path) -> Any:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{file} is larger than {_MOST_BYTES >> 20} MiB")
        return json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is no JSON: {error}"[:300]) from error
