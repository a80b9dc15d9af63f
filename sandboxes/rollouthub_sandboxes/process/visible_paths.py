"""The paths of this machine that a sandbox sees: system programs and Python's standard library only."""

import site
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import rollouthub
import rollouthub_sandboxes

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/etc/mime.types", "/etc/services", "/etc/protocols")


@dataclass(frozen=True, slots=True)
class Machine:
    """The paths of this machine that programs in a sandbox need."""

    folders: tuple[Path, ...]
    """Folders mounted read-only at their own path."""
    links: tuple[tuple[str, str], ...]
    """Symbolic links in the root folder, each with its target."""
    files: tuple[Path, ...]
    hidden: tuple[Path, ...]
    """Folders below the mounted ones that are covered: installed packages, and the hub itself."""
    python: Path
    """The `bin` folder of the base interpreter, not of a virtual environment."""

    @property
    def path(self) -> str:
        """The value of PATH for programs."""
        return SYSTEM_PATH if str(self.python) in SYSTEM_PATH.split(":") else f"{self.python}:{SYSTEM_PATH}"


@cache
def this_machine() -> Machine:
    """The paths of this machine that programs need: shells, interpreters and libraries."""
    prefix = Path(sys.base_prefix).resolve()
    folders = [Path("/usr")] + [Path(name) for name in _LINKED if Path(name).is_dir() and not Path(name).is_symlink()]
    if not prefix.is_relative_to("/usr"):
        folders.append(prefix)
    return Machine(
        folders=tuple(folders),
        links=tuple((name, str(Path(name).readlink())) for name in _LINKED if Path(name).is_symlink()),
        files=tuple(Path(name) for name in _ETC if Path(name).exists()),
        hidden=tuple(_hidden(prefix, folders)),
        python=prefix / "bin",
    )


def _hidden(prefix: Path, shown: Sequence[Path]) -> list[Path]:
    """Folders below those in `shown` that may hold an environment's answers, such as installed packages."""
    candidates = [
        *(Path(name) for name in site.getsitepackages([str(prefix), "/usr", "/usr/local"])),
        *prefix.glob("lib*/python3*/*-packages"),
        *(found for root in ("/usr", "/usr/local") for found in Path(root).glob("lib/python3*/*-packages")),
        Path(sys.prefix),
        Path("/usr/src"),
        Path("/usr/local/src"),
        *(Path(package.__file__ or "/").parents[2] for package in (rollouthub, rollouthub_sandboxes)),
    ]
    below = {
        path
        for candidate in candidates
        if (path := candidate.resolve()).is_dir()
        and path != prefix
        and path not in (Path("/usr"), Path("/usr/local"))
        and not prefix.is_relative_to(path)
        and any(path.is_relative_to(folder) for folder in shown)
    }
    return sorted(path for path in below if not any(path != other and path.is_relative_to(other) for other in below))


def is_open_to_all(folder: Path) -> bool:
    """Whether every user of the machine can enter a folder."""
    return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))
