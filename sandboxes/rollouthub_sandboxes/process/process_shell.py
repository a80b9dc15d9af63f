"""The shell with which a person joins a process sandbox, as their own user."""

import os
import shlex
import shutil
from pathlib import Path

from rollouthub.errors import NotOffered
from rollouthub.processes import descendants
from rollouthub_sandboxes.process.process_isolation import Cell, Kind

_SURROUNDINGS = ("env", "-i", "TERM=xterm-256color")


def way_in(kind: Kind, cell: Cell, pid: int) -> tuple[str, ...]:
    """A command for whoever runs the hub; `pid` is of the process that was started.

    Of the caller's variables the shell gets none: programs in the sandbox can read those of its processes. Nor does it
    get their terminal, but one of its own: whoever holds a terminal can type into it, also after the shell has ended.

    Raises:
        NotOffered: there is no way through its walls.
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
    """The first process behind the walls that a process put up; None where it has ended."""
    return next(iter(descendants(pid)), None)
