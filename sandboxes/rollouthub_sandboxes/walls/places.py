"""Where the paths of a view are placed behind a wall, for both kinds of walls."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rollouthub.processes
from rollouthub.hosting.wall.view import View
from rollouthub.processes import passing
from rollouthub_sandboxes.engine.address import addresses
from rollouthub_sandboxes.process.visible_paths import Machine, this_machine

MEMORY_SHARE = 0.8
"""Share of this machine's memory that a server may use."""
PROCESSES = 4096
"""Most processes and threads of a server, where the wall can bound them."""
TMP_BYTES = 1 << 30
TRIAL_SECONDS = 30.0
CERTIFICATES = ("/etc/ssl", "/etc/ca-certificates", "/etc/pki")
NAMES = ("/etc/resolv.conf", "/etc/gai.conf")


@dataclass(frozen=True)
class Places:
    """What is mounted behind a wall, each at its own path."""

    machine: Machine
    readable: tuple[Path, ...]
    """Read-only files and folders, outer ones first."""
    writable: tuple[Path, ...]
    empty: Path | None
    """The working folder, where nothing that is mounted holds it: it is empty but for what is mounted below it."""
    engine: Path | None
    """The engine's socket, if the view has that opening."""

    @classmethod
    def of(cls, view: View, folder: Path) -> "Places":
        """The places of a view, whose server has its sockets in `folder`."""
        machine = this_machine()
        view.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        given = (*machine.folders, *machine.files, *view.readable, *_existing(CERTIFICATES))
        guard = Path(rollouthub.processes.__file__)
        if not any(guard.is_relative_to(path) for path in given):
            given = (*given, guard)
        writable = (view.home, folder)
        readable = sorted(dict.fromkeys(given), key=lambda path: len(path.parts))
        holding = (*readable, *writable, Path("/tmp"))
        is_held = len(view.workdir.parts) == 1 or any(view.workdir == path for path in holding)
        is_held |= any(view.workdir.is_relative_to(path) for path in (*readable, *writable))
        engine = engine_socket() if "engine" in view.openings else None
        return cls(machine, tuple(readable), writable, None if is_held else view.workdir, engine)

    @property
    def mounted(self) -> tuple[Path, ...]:
        """All of them, outer ones first."""
        found = (*self.readable, *self.writable, *((self.empty,) if self.empty else ()))
        return tuple(sorted(found, key=lambda path: len(path.parts)))


def guarded_in(command: Sequence[str]) -> list[str]:
    """The command line of a server's first process, which no program of the environment's can trace or kill."""
    return [str(Path(sys.executable).resolve()), *passing(command)[1:]]


def memory_bytes() -> int:
    """The memory in bytes that a server may use."""
    return int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def search_path(command: Sequence[str]) -> str:
    """The value of PATH: the folder of a command's interpreter, then the system's."""
    return f"{Path(command[0]).parent}:{this_machine().path}"


def program(name: str) -> str | None:
    """The path of a program of the system; nothing of the working folder is one."""
    found = shutil.which(name)
    return found if found is not None and found.startswith("/") else None


def _existing(paths: Sequence[str]) -> list[Path]:
    return [Path(path) for path in paths if Path(path).exists()]


def engine_socket() -> Path | None:
    """The socket of the first engine of this machine; None if none listens on one."""
    for address in addresses():
        if address.url.startswith("unix://"):
            return Path(address.url.removeprefix("unix://"))
    return None
