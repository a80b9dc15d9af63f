"""Where a container's folders are, who runs in it and what it may write, worked out of a spec and an image."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from rollouthub.errors import ConfigError
from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.docker.api import Json

NOBODY, ROOT = "65534:65534", "0:0"
WORKSPACE = "/workspace"
SUPERVISOR_FOLDER = "/.rollouthub"
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev", SUPERVISOR_FOLDER)


@dataclass(frozen=True, slots=True)
class Image:
    """What of an image matters to a container of it."""

    id: str
    """Its digest, which is also how it is referred to: a tag may move."""
    name: str = ""
    """As it was asked for."""
    user: str = ""
    workdir: str = ""
    volumes: tuple[str, ...] = ()
    """Folders it declares as volumes."""
    has_home: bool = False
    """Whether it sets HOME."""


def image_facts(inspected: Json, name: str) -> Image:
    """An image as the engine describes it."""
    config: Json = inspected.get("Config") or {}
    environment: list[str] = config.get("Env") or []
    volumes: dict[str, object] = config.get("Volumes") or {}
    return Image(
        id=inspected["Id"] if str(inspected["Id"]).startswith("sha256:") else f"sha256:{inspected['Id']}",
        name=name,
        user=config.get("User") or "",
        workdir=config.get("WorkingDir") or "",
        volumes=tuple(sorted(volumes)),
        has_home=any(entry.startswith("HOME=") for entry in environment),
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """A container's folders and users."""

    workdir: str
    first_user: str
    """Whom its first process, the supervisor, runs as."""
    command_user: str
    """Whom commands run as; empty for the first process's own."""
    has_writable_root: bool
    memory_folders: tuple[str, ...]
    """Kept in memory, of a fixed size, on a read-only root."""
    volumes: tuple[str, ...]
    """Those the image declares on a writable root: they are no part of its file system."""
    seeded: tuple[str, ...]
    """Memory folders that are to start with what the image has there."""
    opened: tuple[str, ...]
    """Folders to be made writable for all before the start: by mounting alone they would be root's."""
    owner: tuple[int, int] | None
    """Whom the folders in memory belong to; None as long as only the image knows the number."""
    home: str | None
    """HOME, where the image has none that would do."""
    is_podmans: bool = False
    """Podman takes no owner for a folder in memory: it is opened instead, below the mount."""

    @property
    def user(self) -> str:
        """Whom commands run as."""
        return self.command_user or self.first_user


def layout(spec: SandboxSpec, image: Image) -> Layout:
    """How a container for a spec is laid out.

    Raises:
        ConfigError: the spec asks for a folder that cannot be one.
    """
    is_root_compatible = spec.profile == "root-compat"
    has_writable_root = spec.has_writable_root or is_root_compatible
    own = image.workdir if image.workdir not in ("", "/") else WORKSPACE
    workdir = _folder(spec.workdir or own, "workdir", has_writable_root)
    scratch = [_folder(path, "scratch", has_writable_root) for path in spec.scratch]
    volumes = [path for path in image.volumes if path != "/"]
    # Its capabilities let the supervisor become another user; without them it has to be that user from the start.
    asked = spec.user or (image.user if is_root_compatible else "")
    first_user = ROOT if is_root_compatible else asked or NOBODY
    memory = () if has_writable_root else _distinct([workdir, *scratch, *volumes])
    is_root = first_user.partition(":")[0] in ("0", "root")
    return Layout(
        workdir=workdir,
        first_user=first_user,
        command_user=asked if is_root_compatible and asked not in ("0", "root", ROOT, "root:root") else "",
        has_writable_root=has_writable_root,
        memory_folders=memory,
        volumes=tuple(volumes) if has_writable_root else (),
        seeded=tuple(path for path in _distinct([workdir, *volumes]) if path in memory and path not in scratch),
        opened=_distinct([workdir, *scratch]) if has_writable_root and not is_root else (),
        owner=None,
        home=None if is_root_compatible or "HOME" in spec.environment else (scratch[0] if scratch else workdir),
    )


def for_podman(plan: Layout) -> Layout:
    """A layout as Podman can do it."""
    if plan.has_writable_root:
        return replace(plan, is_podmans=True)
    # Podman makes these writable on any read-only root; so they get a size, and are kept in snapshots.
    folders = _distinct([*plan.memory_folders, "/run", "/var/tmp"])
    return replace(plan, is_podmans=True, owner=None, memory_folders=folders, opened=folders)


def is_numeric(user: str) -> bool:
    """Whether a user is given by number, with or without a group."""
    return all(part.isdecimal() for part in user.split(":"))


def _folder(path: str, what: str, has_writable_root: bool) -> str:
    folder = PurePosixPath(path)
    problem = None
    if not folder.is_absolute() or ".." in folder.parts:
        problem = "must be absolute, without '..'"
    elif folder == PurePosixPath("/") and not has_writable_root:
        problem = "cannot be the root of a read-only root; ask for has_writable_root"
    elif any(folder.is_relative_to(kernel) for kernel in _KERNEL_FOLDERS):
        problem = "is the kernel's or the supervisor's own"
    elif any(sign in path for sign in ":,\n\0"):
        problem = "must not contain a colon, a comma or a line break"
    if problem:
        raise ConfigError(f"{what} {path!r} of a sandbox {problem}")
    return str(folder)


def _distinct(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
