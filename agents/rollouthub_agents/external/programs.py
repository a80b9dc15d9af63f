"""Finds a program on this machine and the folders it needs, so that a sandbox can mount these and nothing else."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import ConfigError

_SYSTEM = Path("/usr")


@dataclass(frozen=True, slots=True)
class Program:
    """A program of this machine and the folders it needs."""

    path: Path
    folders: tuple[Path, ...]
    """Folders to mount besides the system's: its virtual environment, its `node_modules` and the like."""
    search: tuple[Path, ...]
    """Folders in which the program finds others that it starts by name, such as `node`."""


def find_program(name: str) -> Program | None:
    """Find a program by name or path; None if there is none.

    Raises:
        ConfigError: the program is in the hub's own virtual environment, beside the code of environments.
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
    """The outermost `node_modules` folder on a path, below which packages find each other."""
    return next((parent for parent in reversed(path.parents) if parent.name == "node_modules"), None)


def _bases(environment: Path) -> list[Path]:
    """The Python installation that a virtual environment is based on."""
    interpreter = (environment / "bin" / "python").resolve()
    return [interpreter.parent.parent] if interpreter.parent.name == "bin" else []


def _not_systems(folders: list[Path]) -> tuple[Path, ...]:
    """Leave out folders below the system's or Python's installation: sandboxes mount their usable parts anyway."""
    shown = (_SYSTEM, Path(sys.base_prefix).resolve())
    return tuple(dict.fromkeys(path for path in folders if not any(map(path.resolve().is_relative_to, shown))))
