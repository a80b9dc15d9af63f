"""Long-lived programs isolated like a process sandbox: foreign environments' own processes run in them."""

import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from rollouthub.errors import ConfigError
from rollouthub_sandboxes.process.container_walls import GRACE_SECONDS, ContainerEngine, container_engine
from rollouthub_sandboxes.process.process_isolation import (
    missing_tools,
    new_user,
    root_options,
    shown_options,
    user_options,
)
from rollouthub_sandboxes.process.visible_paths import this_machine

logger = logging.getLogger(__name__)

WALLS = "ROLLOUTHUB_FOREIGN_WALLS"
ForeignWalls = Literal["namespaces", "container", "none"]
PROCESSES = 1024
"""Most processes and threads of the program's user at a time."""
FILE_BYTES = 4 << 30
_TRIAL_SECONDS = 20.0
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/ssl", "/etc/ca-certificates", "/etc/pki")


@dataclass(frozen=True)
class WalledProgram:
    """The command that starts a program, and the isolation it runs in."""

    command: tuple[str, ...]
    walls: ForeignWalls
    grace_seconds: float = 0.0
    """Seconds between the signal that asks it to end and the one that ends it."""


def walled(
    command: Sequence[str],
    folder: Path,
    workdir: Path,
    shown: Sequence[Path],
    *,
    network: bool,
    memory_bytes: int,
    variables: Sequence[str],
) -> WalledProgram:
    """The command that runs a program with the system and `shown` read-only, and `folder` as its only writable folder.

    The program starts in `workdir`, which is below `folder`. It has a network only with `network`, no capabilities, and
    `memory_bytes` of address space for each process. It ends with the process that starts it, or when its stdin is
    closed. Where root runs the hub, the program gets a user id of its own, and `folder` is given to that user.

    Bubblewrap isolates it; where that does not work, a container, which gets the named `variables`. The variable
    `ROLLOUTHUB_FOREIGN_WALLS` chooses one of them, or `none`: only the resource limits apply then.

    Raises:
        ConfigError: neither works here, or that which was chosen does not.
    """
    limits = (
        *("prlimit", f"--as={memory_bytes}:{memory_bytes}", f"--nproc={PROCESSES}:{PROCESSES}", "--core=0:0"),
        *(f"--fsize={FILE_BYTES}:{FILE_BYTES}", "setpriv", "--no-new-privs"),
    )
    engine = _chosen_walls()
    if engine == "none":
        _warn()
        own = limits if not missing_tools("limits") else ()
        return WalledProgram((*own, *command), "none")
    uid = new_user() if os.geteuid() == 0 else None
    become: tuple[str, ...] = ()
    if uid is not None:
        become = (f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)
        for path in (folder, workdir):
            path.chmod(0o711)  # bubblewrap, without root's capabilities, has to get through
    if isinstance(engine, ContainerEngine):
        line = engine.command_line(
            (*limits, *command),
            folder,
            workdir,
            shown,
            uid=uid,
            network=network,
            variables=variables,
            processes=PROCESSES,
        )
        return WalledProgram(line, "container", GRACE_SECONDS)
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
def namespaces_problem() -> str | None:
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


def _chosen_walls() -> "ContainerEngine | Literal['namespaces', 'none']":
    """What isolates foreign programs here.

    Raises:
        ConfigError: neither bubblewrap nor a container engine works, or that which was chosen does not.
    """
    chosen = os.environ.get(WALLS) or "any"
    if chosen not in ("any", *get_args(ForeignWalls)):
        raise ConfigError(f"{WALLS}={chosen!r}: it is one of {', '.join(get_args(ForeignWalls))}")
    if chosen == "none":
        return "none"
    problem = namespaces_problem() if chosen != "container" else None
    if chosen != "container" and problem is None:
        return "namespaces"
    if chosen == "namespaces":
        raise ConfigError(f"{WALLS}=namespaces: {problem}")
    engine = container_engine()
    if isinstance(engine, ContainerEngine):
        return engine
    if chosen == "container":
        raise ConfigError(f"{WALLS}=container: {engine}")
    raise ConfigError(
        f"foreign code is not run without walls: {problem}; and in a container it cannot be run either: {engine}. If "
        f"you trust it with what you can read and with the network, set {WALLS}=none"
    )


@cache
def _warn() -> None:
    """Log once that foreign environments run without walls, and what that allows them."""
    logger.warning(
        "foreign environments run behind limits alone (%s=none): they read what you read, and the network is not cut",
        WALLS,
    )
