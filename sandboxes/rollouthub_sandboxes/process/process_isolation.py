"""What separates a sandbox's processes from the machine: namespaces through bubblewrap, or resource limits alone."""

import os
import posixpath
import resource
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from rollouthub.errors import ConfigError
from rollouthub.sandbox import CommandLimits, SandboxSpec
from rollouthub_sandboxes.process.visible_paths import SYSTEM_PATH, Machine, is_open_to_all, this_machine
from rollouthub_sandboxes.supervisor.sandbox import Surroundings

Kind = Literal["namespaces", "limits"]
WORKDIR = "/workspace"
NOBODY = 65_534
_FIRST_USER, _USERS = 1_900_000_000, 200_000_000
"""Range of user ids; where root runs the hub, each sandbox gets a random one, which no account has."""
_FIRST_SUPERVISOR = 2_200_000_000
"""First user id for supervisors: two for each user id of a sandbox."""
_SHARED_MEMORY_BYTES = 64 << 20
_SUPERVISOR = "/.supervisor"
_COMMON = (
    "programs share the machine's kernel",
    "memory is limited for each process, not for all of a sandbox's together, and what is written counts as memory",
    "the share of the machine's processors is not limited",
)
_OF_ONE_USER = (
    "programs can read the environment of that user's processes, keys included",
    "programs can kill or trace that user's processes, and outlive their sandbox",
    "processes are limited for all that this user runs, not for each sandbox",
)
_OTHER_PROCESSES = 1024
"""Processes and threads that the hub's user may start elsewhere while a sandbox lives that runs as that user."""


@dataclass(frozen=True, slots=True)
class Cell:
    """How one sandbox is to be started."""

    command: tuple[str, ...]
    cwd: str
    surroundings: Surroundings
    folders: tuple[str, ...]
    """Its writable folders, which a snapshot saves."""
    user: str
    uid: int | None
    """The user id that only this sandbox has; None where it runs as the hub's own user."""


class Walls(Protocol):
    """One kind of isolation."""

    kind: Kind
    network: str
    limitations: tuple[str, ...]

    def cell(self, spec: SandboxSpec, supervisor: Path, folder: Path) -> Cell:
        """How to start a sandbox; `folder` is an empty folder for this sandbox alone."""
        ...


def missing_tools(kind: Kind) -> list[str]:
    """The programs that this kind of isolation needs and that are not installed."""
    needed = ["prlimit", "setpriv"] + (["bwrap"] if kind == "namespaces" else [])
    return [name for name in needed if shutil.which(name) is None]


class Namespaces:
    """Isolation by bubblewrap: own processes, network, files and users; the supervisor is its first process."""

    kind: Kind = "namespaces"
    network = "none"
    limitations: tuple[str, ...] = (
        *_COMMON,
        "programs see the machine's /usr and Python's standard library, read-only",
    )

    def cell(self, spec: SandboxSpec, supervisor: Path, folder: Path) -> Cell:
        """How to start a sandbox."""
        uid = new_user() if os.geteuid() == 0 else None
        user = NOBODY if uid is None else uid
        workdir = spec.workdir or WORKDIR
        writable = tuple(dict.fromkeys((workdir, *spec.scratch)))
        machine = this_machine()
        command = (
            *("bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
            *("--as-pid-1", "--new-session", "--die-with-parent", "--hostname", "sandbox", "--cap-drop", "ALL"),
            *user_options(uid),
            *root_options(machine, folder, user),
            *(option for path in writable for option in _tmpfs(path, spec.resources.disk_bytes)),
            *(option for path in spec.shown for option in shown_options(path)),
            *("--ro-bind", str(supervisor), _SUPERVISOR),
            *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", workdir, "--"),
            *_limited(spec, spec.resources.pids),
            *_supervisor(_SUPERVISOR, uid),
        )
        environment = {"PATH": machine.path, "HOME": workdir, "LANG": "C.UTF-8", **spec.environment}
        limits = CommandLimits(memory_bytes=spec.resources.memory_bytes)
        return Cell(command, "/", Surroundings(workdir, environment, limits=limits), writable, f"{user}:{user}", uid)


class BareLimits:
    """No isolation but resource limits, an own folder and, where root runs the hub, an own user."""

    kind: Kind = "limits"
    network = "host"

    def __init__(self) -> None:
        self._is_root = os.geteuid() == 0
        reads = "read every file that any user of the machine may read"
        theirs = "read and change every file of the user who runs the hub"
        self.limitations: tuple[str, ...] = (
            *_COMMON,
            "the network is not cut",
            "disk space is limited for each file, not for all of a sandbox's together",
            "programs see the machine's processes and its /tmp",
            "programs can end their own supervisor, which breaks their sandbox",
            f"programs can {reads if self._is_root else theirs}, data sets with answers included",
            *(() if self._is_root else _OF_ONE_USER),
        )

    def cell(self, spec: SandboxSpec, supervisor: Path, folder: Path) -> Cell:
        """How to start a sandbox."""
        if spec.workdir is not None or set(spec.scratch) - {"/tmp"}:
            raise ConfigError(
                f"the provider 'process' cannot give a sandbox the folders {spec.workdir or ''} "
                f"{' '.join(spec.scratch)}: without namespaces it cannot show one at a path of its own; "
                "install bubblewrap, or use --set sandbox=docker"
            )
        uid = new_user() if self._is_root else None
        work, temporary = folder / "work", folder / "tmp"
        for path in (folder, work, temporary):
            path.mkdir(mode=0o700, exist_ok=True)
            if uid is not None:
                os.chown(path, uid, uid)
        own = folder / "supervisor"
        os.link(supervisor, own)  # so that a list of processes tells whose it is
        machine = this_machine()
        path = machine.path if uid is None or is_open_to_all(machine.python) else SYSTEM_PATH
        environment = {"PATH": path, "HOME": str(work), "TMPDIR": str(temporary), "LANG": "C.UTF-8"}
        limits = CommandLimits(memory_bytes=spec.resources.memory_bytes, file_bytes=spec.resources.disk_bytes)
        user = uid or os.geteuid()
        processes = spec.resources.pids if self._is_root else processes_of_user(spec.resources.pids)
        return Cell(
            command=(*_limited(spec, processes), *_supervisor(str(own), uid)),
            cwd=str(work),
            surroundings=Surroundings(str(work), {**environment, **spec.environment}, limits=limits),
            folders=(str(work),),
            user=f"{user}:{user}",
            uid=uid,
        )


def _limited(spec: SandboxSpec, processes: int) -> tuple[str, ...]:
    return ("prlimit", f"--nproc={processes}:{processes}", "--core=0:0", "setpriv", "--no-new-privs")


def _supervisor(program: str, uid: int | None) -> tuple[str, ...]:
    """The supervisor's command line; run by root, it takes user ids of its own and runs commands as `uid`."""
    if uid is None:
        return (program, "--filter")
    return (program, "--filter", "--as", f"{uid}:{uid}", "--own-id", str(_own_id(uid)), "--capabilities", "0")


def _own_id(uid: int) -> int:
    return _FIRST_SUPERVISOR + 2 * (uid - _FIRST_USER)


def user_options(uid: int | None) -> tuple[str, ...]:
    """Bubblewrap options: the capabilities that root's supervisor needs to change user; a user namespace for other
    users.
    """
    if uid is None:
        return ("--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY))
    needed = ("CAP_KILL", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID")
    return tuple(option for name in needed for option in ("--cap-add", name))


def root_options(machine: Machine, folder: Path, user: int) -> list[str]:
    """Bubblewrap options that mount the system's files read-only, and account files that are written into `folder`."""
    options: list[str] = []
    for path in machine.folders:
        for parent in [*reversed(path.parents)][1:]:
            options += ["--perms", "0755", "--dir", str(parent)]  # else it would have the parent's own permissions
        options += ["--ro-bind", str(path), str(path)]
    for name, target in machine.links:
        options += ["--symlink", target, name]
    for path in machine.hidden:
        options += ["--perms", "0755", "--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    options += ["--perms", "0755", "--dir", "/etc"]
    for path in machine.files:
        options += ["--ro-bind", str(path.resolve()), str(path)]
    for file in account_files(folder, user):
        options += ["--ro-bind", str(file), f"/etc/{file.name}"]
    options += ["--proc", "/proc", "--dev", "/dev", *_tmpfs("/dev/shm", _SHARED_MEMORY_BYTES)]
    return options


def shown_options(path: str) -> list[str]:
    """Bubblewrap options that mount a path of the machine read-only; the folders above it contain nothing else."""
    above = [str(parent) for parent in reversed(Path(path).parents)][1:]
    return [*(option for folder in above for option in ("--perms", "0755", "--dir", folder)), "--ro-bind", path, path]


def account_files(folder: Path, user: int) -> list[Path]:
    """Write the files of `/etc` that list users and hosts into a folder; returns their paths."""
    files: list[Path] = []
    for name, text in _accounts(user).items():
        (folder / name).write_text(text)
        files.append(folder / name)
    return files


def _accounts(user: int) -> dict[str, str]:
    """Contents, by name, of the files in `/etc` that list users and hosts."""
    own = "" if user == NOBODY else f"sandbox:x:{user}:{user}::{WORKDIR}:/bin/sh\n"
    groups = "" if user == NOBODY else f"sandbox:x:{user}:\n"
    return {
        "passwd": f"root:x:0:0:root:/:/bin/sh\nnobody:x:{NOBODY}:{NOBODY}:nobody:{WORKDIR}:/bin/sh\n{own}",
        "group": f"root:x:0:\nnogroup:x:{NOBODY}:\n{groups}",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }


def _tmpfs(path: str, size: int) -> Sequence[str]:
    return ("--perms", "1777", "--size", str(size), "--tmpfs", path)


def check_folders(spec: SandboxSpec) -> None:
    """Refuse writable folders that would hide files the sandbox needs.

    Raises:
        ConfigError: a path is not absolute, or a system folder.
    """
    system = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "etc", "proc", "dev", "sys", _SUPERVISOR.strip("/"))
    for path in (*((spec.workdir,) if spec.workdir else ()), *spec.scratch):
        parts = path.strip("/").split("/")
        if not path.startswith("/") or posixpath.normpath(path) != path or path == "/" or parts[0] in system:
            raise ConfigError(
                f"the provider 'process' cannot make {path!r} writable; name an absolute folder outside the system's, "
                "or use --set sandbox=docker"
            )


def new_user() -> int:
    """A random user id that no account and, almost certainly, no other sandbox has."""
    return _FIRST_USER + secrets.randbelow(_USERS)


def processes_of_user(pids: int) -> int:
    """A limit that leaves a sandbox `pids` processes whatever else its user runs: the kernel counts all together."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = _threads_of_user() + pids + _OTHER_PROCESSES
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)


def _threads_of_user() -> int:
    """Number of threads that run as this user now, as the kernel's process limit counts them."""
    total, user = 0, os.geteuid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == user:
                    total += sum(1 for _ in (entry / "task").iterdir())
            except OSError:
                continue  # it ended meanwhile
    return total
