"""The wall of bubblewrap: namespaces of its own, on this machine's files, without a daemon."""

import os
import stat
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import anyio.to_thread

from rollouthub.hosting.wall.view import View
from rollouthub_sandboxes.process.process_isolation import account_files, processes_of_user
from rollouthub_sandboxes.walls.places import (
    NAMES,
    PROCESSES,
    TMP_BYTES,
    TRIAL_SECONDS,
    Places,
    engine_socket,
    guarded_in,
    memory_bytes,
    program,
    search_path,
)

_APART = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL", "--hostname", "environment"),
)


@dataclass(frozen=True)
class _InBubblewrap:
    command: tuple[str, ...]

    def process(self, started: int) -> int:
        """Bubblewrap itself: those behind the wall are below it."""
        return started


class Bubblewrap:
    """Puts servers behind bubblewrap."""

    kind: Literal["bubblewrap"] = "bubblewrap"

    def __init__(self, more: Sequence[str]) -> None:
        """`more` are options that only some versions of bubblewrap have."""
        self._more = tuple(more)

    def lacks(self, view: View) -> str | None:
        """See `Wall`."""
        if "engine" not in view.openings or engine_socket() is not None:
            return None
        return "its sandboxes need a container engine, and none answers; behind bubblewrap there is no other kind"

    @asynccontextmanager
    async def enclosed(
        self, command: Sequence[str], view: View, folder: Path, variables: Mapping[str, str]
    ) -> AsyncGenerator[_InBubblewrap]:
        """Put a command behind the wall; see `Wall`. Its processes end with bubblewrap."""
        accounts = folder / ".accounts"
        accounts.mkdir()
        options = await anyio.to_thread.run_sync(self._options, command, view, folder, accounts)
        yield _InBubblewrap((*options, "--", *_limits(), *guarded_in(command)))

    def _options(self, command: Sequence[str], view: View, folder: Path, accounts: Path) -> list[str]:
        bwrap = program("bwrap")
        assert bwrap is not None
        places = Places.of(view, folder)
        has_network = "network" in view.openings
        options = [bwrap, *_APART, *([] if has_network else ["--unshare-net"]), *self._more]
        options += ["--uid", str(os.geteuid()), "--gid", str(os.getegid())]
        options += [
            "--proc",
            "/proc",
            *_closed_proc(),
            "--dev",
            "/dev",
            "--perms",
            "1777",
            "--size",
            str(TMP_BYTES),
            "--tmpfs",
            "/tmp",
        ]
        for name, target in places.machine.links:
            options += ["--symlink", target, name]
        for path in places.mounted:
            if path in places.writable:
                options += ["--bind", str(path), str(path)]
            elif path == places.empty:
                options += ["--perms", "0755", "--dir", str(path)]
            else:
                options += ["--ro-bind", str(path.resolve()), str(path)]
        for path in account_files(accounts, os.geteuid()):
            options += ["--ro-bind", str(path), f"/etc/{path.name}"]
        if has_network:
            for name in NAMES:
                options += ["--ro-bind-try", str(Path(name).resolve()), name]
        if places.engine is not None:
            options += ["--bind", str(places.engine), str(places.engine)]
        return [*options, "--remount-ro", "/", "--setenv", "PATH", search_path(command), "--chdir", str(view.workdir)]


def _closed_proc() -> list[str]:
    """Options that keep root from what the kernel lets root change without a capability, such as `core_pattern`."""
    if os.geteuid() != 0:
        return []
    changeable = [entry for entry in Path("/proc").iterdir() if not entry.name.isdigit() and _is_changeable(entry)]
    return [option for path in sorted(changeable) for option in ("--ro-bind", str(path), str(path))]


def _is_changeable(entry: Path) -> bool:
    found = entry.lstat()
    return stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and bool(found.st_mode & stat.S_IWUSR))


def _limits() -> tuple[str, ...]:
    limiter = program("prlimit")
    if limiter is None:
        return ()
    memory, processes = memory_bytes(), processes_of_user(PROCESSES)  # the kernel bounds no root's
    return (limiter, f"--data={memory}:{memory}", f"--nproc={processes}:{processes}", "--core=0:0")


async def bubblewrap_wall() -> Bubblewrap | str:
    """The wall of bubblewrap, or why it does not work on this machine."""
    return await anyio.to_thread.run_sync(_found)


@cache
def _found() -> Bubblewrap | str:
    bwrap, true = program("bwrap"), program("true")
    if bwrap is None or true is None:
        return "bubblewrap (`bwrap`) is not installed"
    said = ""
    for more in (("--disable-userns",), ()):  # an option of version 0.8
        try:
            trial = (bwrap, *_APART, "--unshare-net", *more, "--ro-bind", "/", "/", "--proc", "/proc", true)
            done = subprocess.run(
                trial, capture_output=True, timeout=TRIAL_SECONDS, check=False, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap does not start: {error}"
        if done.returncode == 0:
            return Bubblewrap(more)
        said = done.stderr.decode(errors="replace").strip()[:300]
    return f"bubblewrap says: {said}"
