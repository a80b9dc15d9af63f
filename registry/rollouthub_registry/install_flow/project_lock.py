"""A project's `hub.lock`: written from the installed environments, and compared with them."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.env_toml import CONTRACT
from rollouthub.plugins.lock import (
    FILE_NAME,
    OLD_FILE_NAME,
    Lock,
    LockedEnvironment,
    check_contract,
    lock_in,
    nearest_lock,
    read_lock,
    write_lock,
)
from rollouthub_registry.install_flow.install_result import InstallResult
from rollouthub_registry.install_flow.user_folders import UserFolders

_COMPARED = ("version", "bundle", "source", "key_id", "python", "dependencies_digest", "images", "code", "tools")
_NOT_YET = ("code", "tools")
"""Fields known only after an environment has run; if one side lacks them, that is no difference."""


@dataclass(frozen=True)
class Difference:
    """A difference between a lock and this machine."""

    name: str
    what: str
    locked: str | None
    here: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.what} is {self.here or 'not there'}, the lock names {self.locked or 'none'}"


def lock_done(done: Iterable[InstallResult], place: UserFolders, *, only_known: bool = False) -> Path | None:
    """Add what was installed to the project's lock; returns its path, or None if the project has none.

    With `only_known`, only environments that the lock names already are updated.

    Raises:
        ConfigError: the lock cannot be read or written.
    """
    file = nearest_lock(place.here)
    if file is None:
        return None
    lock = read_lock(file)
    check_contract(lock, file)
    more = [each.locked for each in done if not only_known or lock.find(each.locked.name) is not None]
    _write(lock.with_environments(more), lock, file)
    return file


def lock_named(names: Sequence[str], file: Path, place: UserFolders) -> Lock:
    """Write environments to a lock, creating it if need be; without names, those it has, or else all that are
    installed.

    Raises:
        UsageError: one of them is not on this machine, or the lock cannot be read or written.
    """
    lock, here = _found(file), {"hub_version": version("rollouthub"), "contract": CONTRACT}
    if lock is not None and names:
        check_contract(lock, file)  # what is not named would be passed off as of this one
    before = Lock.model_validate(here) if lock is None else lock.model_copy(update=here)
    changed = before.with_environments(as_here(_asked(names, lock, place), place))
    _write(changed, lock, file)
    return changed


def differences(names: Sequence[str], file: Path, place: UserFolders) -> list[Difference]:
    """The differences between a lock and this machine.

    Raises:
        UsageError: there is no lock, it cannot be read, or it does not name one of `names`.
    """
    lock, found = read_lock(file), list[Difference]()
    if lock.contract != CONTRACT:
        found.append(Difference("hub", "contract", str(lock.contract), str(CONTRACT)))
    for name in names or [each.name for each in lock.environments]:
        locked = lock.find(name.partition("@")[0])
        if locked is None:
            raise UnknownNameError(f"environment in {file}", name, [each.name for each in lock.environments])
        target = name if "@" in name or locked.bundle is None else f"{name}@{locked.version}"
        try:
            (here,) = as_here([target], place)
        except UnknownNameError:
            found.append(Difference(locked.name, "version", locked.version, None))
            continue
        for key in _COMPARED:
            before, now = getattr(locked, key), getattr(here, key)
            if before != now and not (key in _NOT_YET and None in (before, now)):
                found.append(Difference(locked.name, key.replace("_", " "), _text(before), _text(now)))
    return found


def as_here(names: Iterable[str], place: UserFolders) -> list[LockedEnvironment]:
    """Lock entries for environments on this machine: installed, shipped with the hub, or in the user's own files.

    Raises:
        UnknownNameError: one is not on this machine.
    """
    return [_installed(name, place) or _hosted(name, place) for name in names]


def _installed(name: str, place: UserFolders) -> LockedEnvironment | None:
    installation = place.home.find(name)
    return None if installation is None else installation.locked


def _hosted(name: str, place: UserFolders) -> LockedEnvironment:
    """The lock entry for an environment that is loaded in this process: the hub's own, or a file of the user's."""
    from rollouthub.hosting.local.host import source_digest
    from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
    from rollouthub.plugins.environments import find_environment

    known = plugins(ENVIRONMENTS)
    plugin = known.get(name)
    is_file = name.partition(":")[0].endswith((".py", ".toml")) or (plugin is None and Path(name).is_dir())
    if (plugin is None or not plugin.is_shipped) and not is_file:
        here = [each.name for each in place.home.all()]
        shipped = [each.name for each in known.values() if each.is_shipped]
        raise UnknownNameError("environment here", name, [*shipped, *here], f"`hub install {name}` installs one.")
    found = find_environment(name)
    return LockedEnvironment(
        name=found.name,
        version=found.environment.version,
        code=source_digest(found.environment),
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
    )


def _asked(names: Sequence[str], lock: Lock | None, place: UserFolders) -> list[str]:
    if names:
        return list(names)
    if lock is not None:
        return [each.name for each in lock.environments]
    installed = list(dict.fromkeys(each.name for each in place.home.all()))
    if not installed:
        raise ConfigError("nothing is installed; name what to lock, for example `hub lock arithmetic`")
    return installed


def _found(file: Path) -> Lock | None:
    if not file.exists() and file.name == FILE_NAME:
        file = lock_in(file.parent) or file
    return read_lock(file) if file.exists() else None


def _write(lock: Lock, before: Lock | None, file: Path) -> None:
    """Write a lock if it changed; else the file keeps its modification time."""
    if before is None or lock != before:
        file = file.with_name(FILE_NAME) if file.name == OLD_FILE_NAME else file
        write_lock(lock.model_copy(update={"hub_version": version("rollouthub")}), file)


def _text(value: object) -> str | None:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return None if value is None else str(value)


def lock_here(place: UserFolders) -> Path:
    """The path of the lock in the folder where the command was given."""
    return lock_in(place.here) or place.here / FILE_NAME
