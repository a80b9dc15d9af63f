"""Environments in a folder: which there are, of which kind, what they need; and the program that runs one."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rollouthub.errors import ConfigError
from rollouthub_servers.foreign.package import is_part
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import ForeignLock, foreign_home
from rollouthub_servers.verifiers.env_record import CODE, EnvRecord, Kind

RELEASES: dict[Kind, str] = {"v0": "0.2.1", "v1": "0.4.0"}
"""Which version of verifiers an environment runs on, where it takes that: the last with `load_environment` at its old
place, and the last there is."""
_OWN = "rollouthub_servers.verifiers"
_SHARED = tuple(
    f"rollouthub_servers.foreign.{name}" for name in ("forked_serving", "code_failures", "local_datasets", "said_steps")
)
_MODULES: dict[Kind, tuple[str, ...]] = {
    "v0": ("v0_world", "v0_rollout", "score_watch"),
    "v1": ("v1_world", "v1_rollout", "v1_tools", "score_watch"),
}
_LOADS = re.compile(r"^(?:async )?def load_environment\b", re.MULTILINE)
_TASKSET = re.compile(r"^class \w+\([^)]*Taskset\b|^__all__ = [^=]*Taskset\b", re.MULTILINE)
_IMPORTS = re.compile(r"^(?:import verifiers\.v1|from verifiers\.v1)\b", re.MULTILINE)
_SOURCE_BYTES = 4 << 20
_NAME = re.compile(r"[A-Za-z_]\w*")
_SKIPPED = frozenset({"__pycache__", ".git", ".venv", "outputs", "node_modules"})
_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # a session is forked, and would inherit that thread's locks
}


@dataclass(frozen=True)
class EnvFolder:
    """One environment: a module beside its `pyproject.toml`, or in an unpacked wheel."""

    folder: Path
    name: str
    declared: tuple[str, ...]
    """What its project asks for."""

    @property
    def module(self) -> str:
        """Its import name, as the library derives it."""
        return re.sub(r"[-.]+", "_", self.name)

    def kind(self) -> Kind:
        """Which interface it has.

        Raises:
            ConfigError: it has none, or no module of its name.
        """
        if not _NAME.fullmatch(self.module) or not is_part(self.name):  # it names a folder, too
            raise ConfigError(f"pyproject.toml: {self.name[:80]!r} names no module")
        text = "\n".join(self._sources())
        if not text:
            raise ConfigError(f"there is no module {self.module!r}")
        if _LOADS.search(text) and not (_IMPORTS.search(text) and _TASKSET.search(text)):
            return "v0"
        if _IMPORTS.search(text):
            if not _TASKSET.search(text):
                raise ConfigError("it brings a harness alone, and no tasks")
            return "v1"
        raise ConfigError("it has neither load_environment nor a Taskset")

    def _sources(self) -> Iterator[str]:
        single, package, left = self.folder / f"{self.module}.py", self.folder / self.module, _SOURCE_BYTES
        files = [single] if single.is_file() else sorted(package.rglob("*.py"))
        for file in files:
            left -= file.stat().st_size
            if left > 0:
                yield file.read_text(encoding="utf-8", errors="replace")

    def requirements(self, kind: Kind, pinned: str | None) -> list[str]:
        """What it needs, the library in the version that is used here (`pinned`, a whole requirement, where given).

        Raises:
            ConfigError: it asks for what is no published wheel.
        """
        found: list[str] = []
        library = Requirement("verifiers")
        for text in self.declared:
            try:
                needed = Requirement(text)
            except InvalidRequirement as error:
                raise ConfigError(f"pyproject.toml: {text[:120]!r} is no requirement: {error}") from error
            if needed.url is not None:
                raise ConfigError(f"pyproject.toml: {text[:160]!r} is no published wheel")
            if canonicalize_name(needed.name) == "verifiers":
                library = needed
            elif needed.marker is None or needed.marker.evaluate({"extra": ""}):
                found.append(text)
        extras = f"[{','.join(sorted(library.extras))}]" if library.extras else ""
        if pinned is not None:
            return [pinned, *found]
        takes = library.specifier.contains(RELEASES[kind], prereleases=True)
        return [f"verifiers{extras}=={RELEASES[kind]}" if takes else f"verifiers{extras}{library.specifier}", *found]


def ignored(folder: str, names: Sequence[str]) -> list[str]:
    """What of an environment's folder is no part of it; for `copytree`."""
    return [name for name in names if name in _SKIPPED or Path(folder, name).is_symlink()]


def find_envs(root: Path) -> list[EnvFolder]:
    """The environments at or below a folder: itself, those in it, or those in its `environments`.

    Raises:
        ConfigError: a project file cannot be read.
    """
    if (root / "pyproject.toml").is_file() and not (root / "environments").is_dir():
        return [_project(root.resolve())]
    base = root / "environments" if (root / "environments").is_dir() else root
    return [_project(each.resolve()) for each in sorted(base.iterdir()) if _holds_project(each)]


def _holds_project(folder: Path) -> bool:
    # A link of a repository may lead to any folder of this machine.
    return not folder.is_symlink() and (folder / "pyproject.toml").is_file()


def _project(folder: Path) -> EnvFolder:
    file = folder / "pyproject.toml"
    try:
        project: Any = tomllib.loads(file.read_text(encoding="utf-8")).get("project")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    values = cast(dict[str, Any], project) if isinstance(project, dict) else {}
    asked = values.get("dependencies")
    declared = tuple(map(str, cast(list[Any], asked))) if isinstance(asked, list) else ()
    return EnvFolder(folder, str(values.get("name") or folder.name), declared)


def in_wheel(folder: Path, name: str) -> EnvFolder:
    """The environment in an unpacked wheel."""
    lines = [
        line.removeprefix("Requires-Dist: ")
        for file in folder.glob("*.dist-info/METADATA")
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("Requires-Dist: ")
    ]
    return EnvFolder(folder, name, tuple(lines))


def driver_modules(kind: Kind) -> tuple[str, ...]:
    """What the driver imports of the hub, for one kind."""
    return (*_SHARED, *(f"{_OWN}.{each}" for each in _MODULES[kind]))


def program_of(data: Path, record: EnvRecord, lock: ForeignLock) -> ForeignProgram:
    """What runs an environment of an imported folder; installed where it is not. Blocks."""
    home = foreign_home()
    path = data / CODE if record.code is not None else home.unpacked(lock.wheel) if lock.wheel is not None else data
    folders = {name: str(data / folder) for name, folder in record.datasets.items()}
    return ForeignProgram(
        name=f"verifiers environment {record.name!r}",
        python=home.python(lock.dependencies),
        module=f"{_OWN}.verifiers_driver",
        modules=driver_modules(record.kind),
        arguments={
            "kind": record.kind,
            "module": record.module,
            "args": record.args,
            "judge": record.judge,
            "datasets": dict(folders),
            "absent": list(record.absent),
        },
        shown=tuple(Path(folder) for folder in folders.values()),
        path=(path,),
        variables=_VARIABLES,
    )
