"""A program of this machine and what it needs beside it, to be shown in a sandbox: no more than that."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import ConfigError

_SYSTEM = Path("/usr")


@dataclass(frozen=True, slots=True)
class Program:
    """A program of this machine."""

    path: Path
    folders: tuple[Path, ...]
    """What it needs besides the system's own: its virtual environment, its `node_modules` …"""
    search: tuple[Path, ...]
    """Where what it starts by name lies, such as `node`."""


def find_program(name: str) -> Program | None:
    """The program of a name or a path, as this machine has it.

    Raises:
        ConfigError: it stands where the code of environments does.
    """
    found = shutil.which(name)
    if found is None:
        return None
    path = Path(found).absolute()
    environment = path.parent.parent
    if (environment / "pyvenv.cfg").is_file():
        if environment.resolve() == Path(sys.prefix).resolve():
            raise ConfigError(
                f"{path} stands in the hub's own environment, beside the code of environments and their verifiers; "
                "give the agent a virtual environment of its own (program=.venv/bin/python), or sandbox=none"
            )
        return Program(path, _not_systems([environment, *_bases(environment)]), (path.parent,))
    real = path.resolve()
    folders = [_outermost(real) or real]
    search = [path.parent]
    if node := shutil.which("node", path=f"{path.parent}:{real.parent}"):
        folders.append(Path(node).resolve())
        search.append(Path(node).resolve().parent)
    return Program(real, _not_systems(folders), tuple(search))


def _outermost(path: Path) -> Path | None:
    """The first `node_modules` on a path: packages find each other below it."""
    return next((parent for parent in reversed(path.parents) if parent.name == "node_modules"), None)


def _bases(environment: Path) -> list[Path]:
    """The installation of Python below a virtual environment."""
    interpreter = (environment / "bin" / "python").resolve()
    return [interpreter.parent.parent] if interpreter.parent.name == "bin" else []


def _not_systems(folders: list[Path]) -> tuple[Path, ...]:
    """Without what every sandbox shows anyway, though not all of it: packages installed beside Python stay hidden."""
    shown = (_SYSTEM, Path(sys.base_prefix).resolve())
    return tuple(dict.fromkeys(path for path in folders if not any(map(path.resolve().is_relative_to, shown))))
