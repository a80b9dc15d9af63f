"""`AppFolder`: the source folder of an application and its requirements. The folder is read; its code is never run."""

import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rollouthub.errors import ConfigError
from rollouthub_servers.foreign.copied_folder import copy_folder
from rollouthub_servers.foreign.partial_lock import lock_without
from rollouthub_servers.foreign.requirements import PYTHON, ForeignLock, foreign_home

MOST_BYTES = 256 << 20
"""Maximum size in bytes of all files of an application."""
_TEXT_BYTES = 1 << 20
_LEFT_OUT = ("__pycache__", "*.pyc", ".git", ".venv", "node_modules", "uv.lock", "*.ipynb", "*.egg-info")
_MARKED = re.compile(r"\s+#.*$")


@dataclass(frozen=True)
class AppFolder:
    """A folder that is a Python package, or whose modules are run from within it."""

    folder: Path
    needs: tuple[str, ...] = ()
    """Requirements from a distribution's metadata; if empty, they are read from the folder's own files."""

    @property
    def name(self) -> str:
        """Import name of the application."""
        return self.folder.name

    def requirements(self) -> list[Requirement]:
        """The application's requirements, from its `pyproject.toml`, or else from its `requirements.txt`.

        Raises:
            ConfigError: a line is not a requirement that a published wheel could meet.
        """
        if self.needs:
            return [found for line in self.needs for found in _requirement(line, "METADATA")]
        project = self.folder / "pyproject.toml"
        if project.is_file():
            return [found for line in _dependencies(project) for found in _requirement(line, project.name)]
        for name in ("server/requirements.txt", "requirements.txt"):
            file = self.folder / name
            if file.is_file():
                lines = (_MARKED.sub("", line).strip() for line in _text(file).splitlines())
                return [
                    found for line in lines if line and not line.startswith("#") for found in _requirement(line, name)
                ]
        return []

    def copy(self, target: Path) -> None:
        """Copy it, but for what tools leave behind.

        Raises:
            ConfigError: it is too large, or holds a link that leads out of it.
        """
        copy_folder(self.folder, target, shutil.ignore_patterns(*_LEFT_OUT), most_bytes=MOST_BYTES)


def lock_app(
    release: str,
    base: Sequence[str],
    needed: Iterable[Requirement],
    met: Iterable[str],
    without: Sequence[str],
    more: Sequence[str],
    note: Callable[[str], None],
) -> ForeignLock:
    """Choose what an application runs on: its framework's wheel alone, what that imports, and its own requirements.

    `met` are names of requirements that are met otherwise, `without` distributions that nothing can install.

    Raises:
        UsageError: nothing fits together, or no index can be reached.
    """
    framework = foreign_home().wheel(release)
    names = {canonicalize_name(name) for name in (framework.name, *met, *without)}
    own = [str(each) for each in needed if canonicalize_name(each.name) not in names]
    chosen = lock_without(own, without, note, beside=[*base, *more]).dependencies
    first = canonicalize_name(framework.name)
    rest = (each for each in chosen if canonicalize_name(each.name) != first)
    return ForeignLock(python=PYTHON, dependencies=(framework, *rest))


def _requirement(line: str, where: str) -> list[Requirement]:
    try:
        found = Requirement(line)
    except InvalidRequirement:
        raise ConfigError(f"{where}: {line[:120]!r} is no published wheel") from None
    if found.marker is not None and not found.marker.evaluate({"extra": ""}):
        return []
    found.marker = found.url = None  # a repository's framework is met by its release, and others are refused below
    if "@" in line and "openenv" not in canonicalize_name(found.name):
        raise ConfigError(f"{where}: {line[:120]!r} is no published wheel")
    return [found]


def _dependencies(file: Path) -> list[str]:
    try:
        document = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file.name}: {error}") from error
    project = document.get("project", {})
    lines: Any = cast("dict[str, Any]", project).get("dependencies", []) if isinstance(project, dict) else []
    return [line for line in cast("list[Any]", lines) if isinstance(line, str)] if isinstance(lines, list) else []


def _text(file: Path) -> str:
    if file.stat().st_size > _TEXT_BYTES:
        raise ConfigError(f"{file.name} is larger than {_TEXT_BYTES:,} bytes")
    return file.read_text(encoding="utf-8", errors="replace")
