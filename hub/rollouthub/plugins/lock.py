"""`hub.lock`: the exact bytes of every environment of a project or a run."""

import hashlib
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import tomli_w
from pydantic import Field, ValidationError, field_validator

from rollouthub.errors import ConfigError
from rollouthub.frozen import Frozen
from rollouthub.plugins.manifest import CONTRACT

FILE_NAME = "hub.lock"
OLD_FILE_NAME = "envhub.lock"
"""Its name before the hub was called rollouthub. Read where there is no other, never written."""
_HEAD = "# Written by hub; `hub install --locked` and `hub run --locked` hold to it. Keep it with your work.\n\n"


class LockedDependency(Frozen):
    """A Python distribution that an environment is installed with."""

    name: str
    version: str
    hashes: tuple[str, ...]
    """`sha256:…` of the archives it may be installed from."""


class LockedEnvironment(Frozen):
    """One environment: what it is made of, and where that was had."""

    name: str
    """As rollouts carry it."""
    version: str
    bundle: str | None = None
    """`sha256:…` of the bundle; None of one that comes with the hub, or that runs from its author's folder."""
    code: str | None = None
    """What its host says its code's digest is (`EnvironmentInfo.digest`); None before it ever ran."""
    tools: str | None = None
    """What its host says its tools' digest is, likewise."""
    source: str | None = None
    """The registry, or the address of an archive or a repository, that it was installed from."""
    key_id: str | None = None
    """Of the key that signed it; None where nobody did."""
    python: str | None = None
    """The version of the interpreter that its dependencies were chosen for, such as `3.11`."""
    images: tuple[str, ...] = ()
    """Container images, by digest."""
    dependencies: tuple[LockedDependency, ...] = ()

    @property
    def dependencies_digest(self) -> str | None:
        """`sha256:…` over its dependencies; None where it has none of its own."""
        if not self.dependencies:
            return None
        lines = (
            f"{each.name}=={each.version} {' '.join(sorted(each.hashes))}\n"
            for each in sorted(self.dependencies, key=lambda each: each.name)
        )
        return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


class Lock(Frozen):
    """All of a `hub.lock`."""

    schema_version: int = Field(default=1, ge=1, le=1)
    hub_version: str
    """Of the hub that wrote it."""
    contract: int = Field(default=1, ge=1)
    """The version of the contract between hub and environments that it was written under."""
    environments: tuple[LockedEnvironment, ...] = ()

    @field_validator("environments")
    @classmethod
    def _are_named_once(cls, environments: tuple[LockedEnvironment, ...]) -> tuple[LockedEnvironment, ...]:
        names = [each.name for each in environments]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{twice[0]!r} is there twice")
        return environments

    def find(self, name: str) -> LockedEnvironment | None:
        """What it says of an environment."""
        return next((locked for locked in self.environments if locked.name == name), None)

    def with_environments(self, more: Iterable[LockedEnvironment]) -> "Lock":
        """This, with some environments added or put in the place of others of their name."""
        found = {locked.name: locked for locked in (*self.environments, *more)}
        return self.model_copy(update={"environments": tuple(found[name] for name in sorted(found))})


def read_lock(file: Path) -> Lock:
    """Read a `hub.lock`.

    Raises:
        ConfigError: it is not there, damaged, or of a newer hub.
    """
    try:
        return Lock.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConfigError(f"there is no lock {str(file)!r}; `hub lock ENV…` writes one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the lock {str(file)!r} cannot be read: {error}") from error
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(str(step) for step in problem["loc"])
        raise ConfigError(
            f"the lock {str(file)!r} is damaged, or of a newer hub: {key or 'it'}: {problem['msg']}"
        ) from error


def check_contract(lock: Lock, file: Path) -> None:
    """See that what a lock names can be played as it was.

    Raises:
        ConfigError: the hub that wrote it spoke another contract with environments than this one.
    """
    if lock.contract != CONTRACT:
        raise ConfigError(
            f"the lock {str(file)!r} was written by hub {lock.hub_version} under contract {lock.contract}, and "
            f"this hub speaks contract {CONTRACT}; take that hub, or lock everything anew with `hub lock`"
        )


def remark_on_hub(lock: Lock, file: Path) -> str | None:
    """What to tell who holds to a lock that another version of the hub wrote; None where it was this one."""
    here = version("rollouthub")
    if lock.hub_version == here:
        return None
    return (
        f"the lock {str(file)!r} was written by hub {lock.hub_version}, and this is hub {here}: environments are held "
        "to it, the hub that plays them is not; take that hub, or accept this one with `hub lock`"
    )


def write_lock(lock: Lock, file: Path) -> None:
    """Write a `hub.lock`, which appears whole.

    Raises:
        ConfigError: it cannot be written.
    """
    beside = file.with_name(f".{file.name}.partial")
    try:
        beside.write_text(_HEAD + tomli_w.dumps(lock.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        with suppress(OSError):  # where nothing can be written, nothing can be removed either
            beside.unlink()
        raise ConfigError(f"the lock {str(file)!r} cannot be written: {error.strerror or error}") from error


def nearest_lock(folder: Path) -> Path | None:
    """The lock of the project that a folder belongs to: its own, or that of a folder above it."""
    return next((file for above in (folder, *folder.parents) if (file := lock_in(above)) is not None), None)


def lock_in(folder: Path) -> Path | None:
    """The lock that lies in a folder, under its name or the one it had before; None where there is none."""
    return next((file for name in (FILE_NAME, OLD_FILE_NAME) if (file := folder / name).is_file()), None)
