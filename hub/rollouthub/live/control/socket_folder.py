"""The folder of running hubs' sockets: private to this user, with a socket for each run."""

import hashlib
import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from rollouthub.errors import LiveControlError

LONGEST_PATH = 107
"""Most bytes of a socket's path: `sun_path` has 108, the last of which is zero."""
_CONNECT_SECONDS = 1.0
_UNFINISHED_SECONDS = 60.0
SOCKET, UNFINISHED = ".sock", ".new"


def socket_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders in which sockets may be, the preferred one first."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    own = Path(tempfile.gettempdir()) / f"rollouthub-{os.geteuid()}"
    return (Path(runtime) / "rollouthub", own) if runtime.startswith("/") else (own,)


def why_unsafe(folder: Path) -> str | None:
    """Why a folder must not be used for sockets; None if it is safe."""
    try:
        facts = folder.lstat()
    except OSError as error:
        return f"{folder} cannot be used ({error.strerror})"
    if not stat.S_ISDIR(facts.st_mode):
        return f"{folder} is no folder"
    if facts.st_uid != os.geteuid():
        return f"{folder} belongs to user {facts.st_uid}"
    if facts.st_mode & 0o077:
        return f"{folder} is open to others (mode {stat.S_IMODE(facts.st_mode):04o}); chmod 700 it"
    return None


def choose_path(folders: tuple[Path, ...], run_id: str) -> Path:
    """The path for a run's socket; creates the folder, and removes dead sockets.

    Raises:
        LiveControlError: no folder is usable.
    """
    problems: list[str] = []
    for folder in folders:
        with suppress(OSError):
            folder.mkdir(mode=0o700)
        if problem := why_unsafe(folder):
            problems.append(problem)
            continue
        sweep(folder)
        fitting = [path for path in _paths(folder, run_id) if len(os.fsencode(path)) <= LONGEST_PATH]
        if free := next((path for path in fitting if not is_alive(path)), None):
            return free
        problems.append(f"{folder} has a path too long for a socket" if not fitting else f"{folder} has no name left")
    raise LiveControlError(f"no socket can be opened for run {run_id!r}: " + "; ".join(problems))


def _paths(folder: Path, run_id: str) -> Iterator[Path]:
    """Possible paths of the socket: a copy of a run in flight has the same id."""
    digest = hashlib.sha256(f"{run_id} {os.getpid()}".encode()).hexdigest()
    if re.fullmatch(r"[\w.-]{1,100}", run_id, re.ASCII):
        yield folder / f"{run_id}{SOCKET}"
    yield folder / f"{digest[:12]}{SOCKET}"
    yield folder / f"{digest[:6]}{SOCKET}"


def is_alive(path: Path) -> bool:
    """Whether a process listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # too busy to answer, or none of ours
    return True


def sweep(folder: Path) -> list[Path]:
    """Remove the sockets of killed hubs from a safe folder; returns the live sockets, oldest first."""
    alive: list[tuple[float, Path]] = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                facts = path.lstat()
                if not stat.S_ISSOCK(facts.st_mode):
                    continue
                if path.suffix == UNFINISHED and time.time() - facts.st_mtime > _UNFINISHED_SECONDS:
                    path.unlink()
                elif path.suffix == SOCKET:
                    # A socket gets this name when it listens, so one that refuses was left behind.
                    if is_alive(path):
                        alive.append((facts.st_mtime, path))
                    else:
                        path.unlink()
    return [path for _, path in sorted(alive)]


def find_sockets(folders: tuple[Path, ...]) -> list[Path]:
    """The sockets at which a process listens, oldest first, in safe folders."""
    return [path for folder in folders if why_unsafe(folder) is None for path in sweep(folder)]
