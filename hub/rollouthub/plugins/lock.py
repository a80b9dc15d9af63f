"""`hub.lock`: the exact bytes, by digest, of every environment of a project or a run."""

import hashlib
import os
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import tomli_w
from pydantic import Field, ValidationError, field_validator

from rollouthub.errors import ConfigError, invalid_fields
from rollouthub.plugins.env_toml import CONTRACT
from rollouthub.values import Frozen

FILE_NAME = "hub.lock"
OLD_FILE_NAME = "envhub.lock"
"""The lock's file name from before the hub was called rollouthub. It is read where `hub.lock` is missing, and never
written.
"""
_HEAD = "# Written by hub; `hub install --locked` and `hub run --locked` hold to it. Keep it with your work.\n\n"


class LockedDependency(Frozen):
    """A Python distribution that is installed together with an environment."""

    name: str
    version: str
    hashes: tuple[str, ...]
    """`sha256:…` of each archive that the distribution may be installed from."""


class LockedEnvironment(Frozen):
    """One environment: the digests of its parts, and the place it was installed from."""

    name: str
    """The environment's name as rollouts record it."""
    version: str
    bundle: str | None = None
    """`sha256:…` of the bundle; None for an environment that ships with the hub or runs from its author's folder."""
    code: str | None = None
    """The digest of the environment's code as its host reports it (`EnvironmentInfo.digest`); None before its first
    run.
    """
    tools: str | None = None
    """The digest of the environment's tools as its host reports it; None before its first run."""
    source: str | None = None
    """The registry, or the address of the archive or repository, that the environment was installed from."""
    key_id: str | None = None
    """Id of the key that signed the bundle; None where it is not signed."""
    python: str | None = None
    """Version of the interpreter that the dependencies were resolved for, such as `3.11`."""
    images: tuple[str, ...] = ()
    """Container images that the environment uses, each by digest."""
    dependencies: tuple[LockedDependency, ...] = ()

    @property
    def dependencies_digest(self) -> str | None:
        """`sha256:…` over the locked dependencies; None where there are none."""
        if not self.dependencies:
            return None
        lines = (
            f"{each.name}=={each.version} {' '.join(sorted(each.hashes))}\n"
            for each in sorted(self.dependencies, key=lambda each: each.name)
        )
        return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


class Lock(Frozen):
    """The content of a `hub.lock`."""

    schema_version: int = Field(default=1, ge=1, le=1)
    hub_version: str
    """Version of the hub that wrote the lock."""
    contract: int = Field(default=1, ge=1)
    """Version of the contract between hub and environments that the lock was written under."""
    environments: tuple[LockedEnvironment, ...] = ()

    @field_validator("environments")
    @classmethod
    def _are_named_once(cls, environments: tuple[LockedEnvironment, ...]) -> tuple[LockedEnvironment, ...]:
        names = [each.name for each in environments]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{twice[0]!r} is there twice")
        return environments

    def find(self, name: str) -> LockedEnvironment | None:
        """Return the entry of an environment; None where the lock has none."""
        return next((locked for locked in self.environments if locked.name == name), None)

    def with_environments(self, more: Iterable[LockedEnvironment]) -> "Lock":
        """Return a copy of the lock with these environments added; each replaces the entry of the same name."""
        found = {locked.name: locked for locked in (*self.environments, *more)}
        return self.model_copy(update={"environments": tuple(found[name] for name in sorted(found))})


def read_lock(file: Path) -> Lock:
    """Read a `hub.lock`.

    Raises:
        ConfigError: the file does not exist, is damaged, or was written by a newer hub.
    """
    try:
        return Lock.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConfigError(f"there is no lock {str(file)!r}; `hub lock ENV…` writes one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the lock {str(file)!r} cannot be read: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"the lock {str(file)!r} is damaged, or of a newer hub: {invalid_fields(error)}") from error


def check_contract(lock: Lock, file: Path) -> None:
    """Check that this hub speaks the contract that a lock was written under.

    Raises:
        ConfigError: the lock names another contract version.
    """
    if lock.contract != CONTRACT:
        raise ConfigError(
            f"the lock {str(file)!r} was written by hub {lock.hub_version} under contract {lock.contract}, and "
            f"this hub speaks contract {CONTRACT}; take that hub, or lock everything anew with `hub lock`"
        )


def remark_on_hub(lock: Lock, file: Path) -> str | None:
    """Return a warning for users of a lock that another version of the hub wrote; None where the versions match."""
    here = version("rollouthub")
    if lock.hub_version == here:
        return None
    return (
        f"the lock {str(file)!r} was written by hub {lock.hub_version}, and this is hub {here}: environments are held "
        "to it, the hub that plays them is not; take that hub, or accept this one with `hub lock`"
    )


def write_lock(lock: Lock, file: Path, mode: int = 0o666) -> None:
    """Write a `hub.lock` atomically; a project's is for all who work on it, a run's (`mode`) its user's alone.

    Raises:
        ConfigError: the file cannot be written.
    """
    beside = file.with_name(f".{file.name}.partial")
    try:
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as sink:
            sink.write(_HEAD + tomli_w.dumps(lock.model_dump(mode="json", exclude_none=True)))
        beside.replace(file)
    except OSError as error:
        with suppress(OSError):  # where nothing can be written, nothing can be removed either
            beside.unlink()
        raise ConfigError(f"the lock {str(file)!r} cannot be written: {error.strerror or error}") from error


def nearest_lock(folder: Path) -> Path | None:
    """Return the path of the lock in a folder or in the nearest folder above it that has one; None where none has."""
    return next((file for above in (folder, *folder.parents) if (file := lock_in(above)) is not None), None)


def lock_in(folder: Path) -> Path | None:
    """Return the path of the lock in a folder, under its current or its old name; None where there is none."""
    return next((file for name in (FILE_NAME, OLD_FILE_NAME) if (file := folder / name).is_file()), None)
