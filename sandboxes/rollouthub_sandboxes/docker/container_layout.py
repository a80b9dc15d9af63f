"""A container's writable folders, and the users in it, derived from a spec and an image."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from rollouthub.errors import ConfigError
from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.engine.api import Json

NOBODY, ROOT = "65534:65534", "0:0"
WORKSPACE = "/workspace"
SUPERVISOR_FOLDER = "/.rollouthub"
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev", SUPERVISOR_FOLDER)


@dataclass(frozen=True, slots=True)
class Image:
    """The properties of an image that matter for its containers."""

    id: str
    """Its digest; containers are created by it, since a tag may move."""
    name: str = ""
    """The name that it was asked for by."""
    user: str = ""
    workdir: str = ""
    volumes: tuple[str, ...] = ()
    """Folders that the image declares as volumes."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    has_home: bool = False
    """Whether the image sets HOME."""


def image_facts(inspected: Json, name: str) -> Image:
    """The `Image` for the engine's description of an image."""
    config: Json = inspected.get("Config") or {}
    environment: list[str] = config.get("Env") or []
    volumes: dict[str, object] = config.get("Volumes") or {}
    return Image(
        id=inspected["Id"] if str(inspected["Id"]).startswith("sha256:") else f"sha256:{inspected['Id']}",
        name=name,
        user=config.get("User") or "",
        workdir=config.get("WorkingDir") or "",
        volumes=tuple(sorted(volumes)),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        has_home=any(entry.startswith("HOME=") for entry in environment),
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders and users of a container."""

    workdir: str
    first_user: str
    """The user that commands run as unless `command_user` is set; without a supervisor the first process has it,
    too.
    """
    command_user: str
    """The user that commands run as; empty for `first_user`."""
    has_writable_root: bool
    memory_folders: tuple[str, ...]
    """Writable folders kept in memory with a fixed size, where the root is read-only."""
    volumes: tuple[str, ...]
    """The image's volumes, where the root is writable: they are not part of the root's file system."""
    seeded: tuple[str, ...]
    """Folders in memory that start with the image's own files."""
    opened: tuple[str, ...]
    """Folders to be made writable for everybody before the start, since a mount alone leaves them root's."""
    owner: tuple[int, int] | None
    """User and group id that own the folders in memory; None until the ids are read from the image."""
    home: str | None
    """Value for HOME; None where the image's or the spec's own is used."""
    is_podmans: bool = False
    """Whether the engine is Podman, which takes no owner for a folder in memory: the folder is opened to everybody
    instead.
    """

    @property
    def user(self) -> str:
        """The user that commands run as."""
        return self.command_user or self.first_user


def layout(spec: SandboxSpec, image: Image) -> Layout:
    """The folders and users of a container for a spec.

    Raises:
        ConfigError: the spec names a folder that cannot be made writable.
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
    """The layout adapted to Podman."""
    if plan.has_writable_root:
        return replace(plan, is_podmans=True)
    # Podman makes these writable on any read-only root; so they get a size, and are kept in snapshots.
    folders = _distinct([*plan.memory_folders, "/run", "/var/tmp"])
    return replace(plan, is_podmans=True, owner=None, memory_folders=folders, opened=folders)


def is_numeric(user: str) -> bool:
    """Whether a user is given as a number, with or without a group."""
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
