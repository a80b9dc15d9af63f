"""What keeps a program apart from the machine: namespaces where they can be had, else a user of its own, else nothing.

Namespaces are entered twice. The fork server builds a small read-only root once and moves into it; each run then gets
a PID, mount, network and IPC namespace of its own, an empty `/tmp` and, without root, a user namespace.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from envhub_sandboxes.jail import system

SCRATCH_BYTES = 64 << 20
"""Size of a run's `/tmp` where it is a mount of its own."""
FIRST_UID = 1_900_000_000
"""As root each run has the user id FIRST_UID + its keeper's process id: no account, and nobody else's."""
NOBODY = 65_534

_PLACES = ("/mnt", "/media", "/srv", "/var/tmp", "/tmp", "/run")
_LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class Namespaces:
    """A root with Python and the system's libraries alone; no network; processes that end with their first."""

    name = "namespaces"

    def __init__(self) -> None:
        self._is_root = os.geteuid() == 0
        user, group = os.geteuid(), os.getegid()
        flags = system.CLONE_NEWNS | system.CLONE_NEWNET | system.CLONE_NEWIPC | system.CLONE_NEWUTS
        system.unshare(flags if self._is_root else flags | system.CLONE_NEWUSER)
        if not self._is_root:
            _map_ids(user, group)
        _build_root()

    def enter(self) -> None:
        """In the keeper: namespaces of the run's own; its next child is the first process in them."""
        flags = system.CLONE_NEWPID | system.CLONE_NEWNS | system.CLONE_NEWNET | system.CLONE_NEWIPC
        system.unshare(flags if self._is_root else flags | system.CLONE_NEWUSER)
        if not self._is_root:
            _map_ids(NOBODY, NOBODY)

    def furnish(self) -> str:
        """In the first process: an empty `/tmp`, which is the working directory, and a `/proc` of this run alone."""
        flags = system.MS_NOSUID | system.MS_NODEV
        system.mount("tmpfs", "/tmp", "tmpfs", flags, f"size={SCRATCH_BYTES},nr_inodes=4096,mode=1777")
        try:
            system.mount("proc", "/proc", "proc", flags | system.MS_NOEXEC)
        except OSError:  # refused inside some containers: none at all, then, and never the machine's
            system.mount("tmpfs", "/proc", "tmpfs", flags | system.MS_RDONLY, "size=4k")
        return "/tmp"

    def drop(self, keeper: int) -> None:
        """In the program's process: become a user of this run alone, without capabilities."""
        if self._is_root:
            _become(FIRST_UID + keeper)
        system.drop_capabilities()


class OwnUser:
    """Root, but no namespaces: every run has a user id of its own, so that it can be found and killed as a whole."""

    name = "user"

    def enter(self) -> None:
        """In the keeper: see every process of the run end, wherever it has moved to."""
        system.adopt_orphans()

    def drop(self, keeper: int) -> None:
        """Become the user of this run."""
        _become(FIRST_UID + keeper)
        system.drop_capabilities()


class SameUser:
    """Neither: the program runs as who runs the hub."""

    name = "process"

    def enter(self) -> None:
        """In the keeper: see every process of the run end, wherever it has moved to."""
        system.adopt_orphans()

    def drop(self, keeper: int) -> None:
        """Without capabilities, where there were any."""
        system.drop_capabilities()


Walls = Namespaces | OwnUser | SameUser


def make_walls(name: str) -> Walls:
    """The walls of this name.

    Raises:
        OSError: they cannot be had here.
    """
    if name == Namespaces.name:
        return Namespaces()
    if name == SameUser.name:
        return SameUser()
    if os.geteuid() != 0:
        raise OSError("only root can give a run a user of its own")
    return OwnUser()


def _map_ids(user: int, group: int) -> None:
    """Be nobody in the new user namespace."""
    with suppress(OSError):  # denied already in a nested one
        Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} {group} 1")


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _build_root() -> None:
    """A root of read-only views of Python and the system's libraries, and move into it."""
    python = str(Path(sys.base_prefix).resolve())
    folders = ["/usr", *(path for path in _LINKED if Path(path).is_dir() and not Path(path).is_symlink())]
    if not python.startswith("/usr/") and python != "/usr":
        folders.append(python)
    files = [path for path in _FILES if Path(path).exists()]
    taken = [str(Path(path).resolve()) for path in (*folders, *files)]
    place = next(path for path in _PLACES if Path(path).is_dir() and not any(t.startswith(path + "/") for t in taken))
    system.mount("none", "/", None, system.MS_REC | system.MS_PRIVATE)
    system.mount("tmpfs", place, "tmpfs", system.MS_NOSUID | system.MS_NODEV, "size=64k,mode=755")
    for path in folders:
        _bind(path, place + path, is_folder=True)
    for path in _LINKED:
        if Path(path).is_symlink():
            Path(place + path).symlink_to(Path(path).readlink())
    for path in files:
        _bind(path, place + path, is_folder=False)
    for name in ("tmp", "proc"):
        (Path(place) / name).mkdir()
    # Without a visible /proc a user namespace may mount none of its own. Each run covers this one.
    system.mount("/proc", place + "/proc", None, system.MS_BIND | system.MS_REC)
    os.chdir(place)
    system.pivot_root_here()
    flags = system.MS_REMOUNT | system.MS_BIND | system.MS_RDONLY | system.MS_NOSUID | system.MS_NODEV
    system.mount("none", "/", None, flags)


def _bind(source: str, target: str, *, is_folder: bool) -> None:
    if is_folder:
        Path(target).mkdir(parents=True)
    else:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).touch()
    system.mount(str(Path(source).resolve()), target, None, system.MS_BIND | system.MS_REC)
    if source.startswith("/dev/"):
        return
    # What the machine forbids on this mount stays forbidden; a user namespace may not lift it.
    kept = os.statvfs(target).f_flag & (system.MS_NODEV | system.MS_NOEXEC)
    system.mount("none", target, None, system.MS_REMOUNT | system.MS_BIND | system.MS_RDONLY | system.MS_NOSUID | kept)
