"""The command with which a person opens a shell in a process sandbox, as the sandbox's user."""

import os
import shlex
import shutil
from pathlib import Path

from rollouthub.errors import NotOffered
from rollouthub.processes import descendants
from rollouthub_sandboxes.process.process_isolation import Cell, Kind

_SURROUNDINGS = ("env", "-i", "TERM=xterm-256color")


def way_in(kind: Kind, cell: Cell, pid: int) -> tuple[str, ...]:
    """The command that opens a shell in a sandbox, for the user who runs the hub; `pid` is the process started for it.

    The shell gets none of the caller's environment variables, since programs in the sandbox can read them, and a
    terminal of its own, since a program that holds the caller's terminal could type into it even after the shell ended.

    Raises:
        NotOffered: its isolation cannot be entered, or a needed program is missing.
    """
    if kind != "limits" and cell.uid is None:
        # Its walls belong to a user namespace that bubblewrap has left, and nobody else was in.
        raise NotOffered("the walls of a process sandbox let in root alone, and this hub is not run by root")
    script = _program("script")
    workdir = cell.surroundings.workdir
    path = cell.surroundings.environment.get("PATH", os.defpath)
    its_own = ("TERM=xterm-256color", f"PATH={path}", f"HOME={workdir}")
    if kind == "limits":
        # By its whole name: in the sandbox's own search path, its programs may have put another of that name.
        become = () if cell.uid is None else (f"--reuid={cell.uid}", f"--regid={cell.uid}", "--clear-groups")
        inside = (
            _program("setpriv"),
            "--no-new-privs",
            *become,
            "env",
            "-i",
            f"--chdir={workdir}",
            *its_own,
            "/bin/sh",
        )
    else:
        first, nsenter = first_inside(pid), _program("nsenter")
        if first is None:
            raise NotOffered("its first process has ended")
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid")
        enter = (nsenter, f"--target={first}", *spaces, "--wd", f"--setuid={cell.uid}", f"--setgid={cell.uid}")
        inside = (*enter, "env", "-i", *its_own, "setpriv", "--no-new-privs", "/bin/sh")
    return (*_SURROUNDINGS, script, "--quiet", "--return", "--command", f"exec {shlex.join(inside)}", "/dev/null")


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise NotOffered(f"{name} is not installed (util-linux)")
    return str(Path(path).absolute())


def first_inside(pid: int) -> int | None:
    """The pid of the first process that bubblewrap (`pid`) started in its namespaces; None where it has ended."""
    return next(iter(descendants(pid)), None)
