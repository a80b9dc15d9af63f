"""Long-lived programs isolated like a process sandbox: foreign environments' own processes run in them."""

import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rollouthub_sandboxes.process.process_isolation import (
    Kind,
    missing_tools,
    new_user,
    root_options,
    shown_options,
    user_options,
)
from rollouthub_sandboxes.process.visible_paths import this_machine

logger = logging.getLogger(__name__)

PROCESSES = 1024
"""Most processes and threads of the program's user at a time."""
FILE_BYTES = 4 << 30
_TRIAL_SECONDS = 20.0
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/ssl", "/etc/ca-certificates", "/etc/pki")


@dataclass(frozen=True)
class WalledProgram:
    """The command that starts a program, and the isolation it runs in."""

    command: tuple[str, ...]
    walls: Kind
    """`namespaces`, or `limits` where bubblewrap does not work on this machine."""


def walled(
    command: Sequence[str], folder: Path, workdir: Path, shown: Sequence[Path], *, network: bool, memory_bytes: int
) -> WalledProgram:
    """The command that runs a program with the system and `shown` read-only, and `folder` as its only writable folder.

    The program starts in `workdir`, which is below `folder`. It has a network only with `network`, no capabilities, and
    `memory_bytes` of address space for each process. It ends with the process that starts it. Where bubblewrap does not
    work, only the resource limits apply, and a warning is logged. Where root runs the hub, the program gets a user id
    of
    its own, and `folder` is given to that user.
    """
    limits = (
        *("prlimit", f"--as={memory_bytes}:{memory_bytes}", f"--nproc={PROCESSES}:{PROCESSES}", "--core=0:0"),
        *(f"--fsize={FILE_BYTES}:{FILE_BYTES}", "setpriv", "--no-new-privs"),
    )
    problem = _problem()
    if problem is not None:
        _warn(problem)
        own = limits if not missing_tools("limits") else ()
        return WalledProgram((*own, *command), "limits")
    uid = new_user() if os.geteuid() == 0 else None
    become: tuple[str, ...] = ()
    if uid is not None:
        become = (f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)
        for path in (folder, workdir):
            path.chmod(0o711)  # bubblewrap, without root's capabilities, has to get through
    return WalledProgram(
        (*_bubblewrap(folder, workdir, shown, uid, network), "--", *limits, *become, *command), "namespaces"
    )


def _bubblewrap(folder: Path, workdir: Path, shown: Sequence[Path], uid: int | None, network: bool) -> list[str]:
    machine, accounts = this_machine(), folder / ".accounts"
    accounts.mkdir(exist_ok=True)
    options = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += [] if network else ["--unshare-net"]
    options += ["--new-session", "--die-with-parent", "--hostname", "foreign", "--cap-drop", "ALL"]
    options += [*user_options(uid), *root_options(machine, accounts, 65_534 if uid is None else uid)]
    if network:
        for name in _NETWORK_FILES:
            options += ["--ro-bind-try", str(Path(name).resolve()), name]
    options += ["--perms", "1777", "--size", str(1 << 30), "--tmpfs", "/tmp"]
    for path in shown:
        options += shown_options(str(path))
    for parent in [*reversed(folder.parents)][1:]:
        options += ["--perms", "0755", "--dir", str(parent)]
    return [*options, "--bind", str(folder), str(folder), "--remount-ro", "/", "--chdir", str(workdir)]


@cache
def _problem() -> str | None:
    """Why namespaces do not work on this machine; None where they do."""
    if missing := missing_tools("namespaces"):
        return f"{' and '.join(missing)} cannot be found; install bubblewrap and util-linux"
    isolated = ("bwrap", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--cap-drop", "ALL")
    true = shutil.which("true") or "true"
    try:
        done = subprocess.run(
            (*isolated, true), capture_output=True, timeout=_TRIAL_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    return None if done.returncode == 0 else f"bubblewrap says: {done.stderr.decode(errors='replace').strip()[:300]}"


@cache
def _warn(problem: str) -> None:
    """Log once that foreign environments run without namespaces, and what that allows them."""
    logger.warning(
        "foreign environments run without namespaces, behind limits alone: they read what you read, and the network is "
        "not cut (%s)",
        problem,
    )
