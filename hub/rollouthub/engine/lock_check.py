"""Checks a run against a `hub.lock`, and makes the lock of a run."""

import logging
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.plugins.env_toml import CONTRACT
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import Lock, LockedEnvironment, check_contract, read_lock, remark_on_hub
from rollouthub.protocols import EnvironmentInfo

logger = logging.getLogger("rollouthub.plugins.lock")


def held_lock(file: Path) -> Lock:
    """Read the lock that a run must match; warns if another version of the hub wrote it.

    Raises:
        ConfigError: the file cannot be read, or was written under another contract with environments.
    """
    lock = read_lock(file)
    check_contract(lock, file)
    if (remark := remark_on_hub(lock, file)) is not None:
        logger.warning("%s", remark)
    return lock


def locked_target(target: str, lock: Lock) -> str:
    """The target with exactly the version that the lock names, if the lock names a bundle of this environment.

    Raises:
        ConfigError: another version was asked for.
    """
    name, _, wanted = target.partition("@")
    locked = lock.find(name)
    if locked is None or locked.bundle is None:
        return target
    if wanted and wanted != locked.version:
        raise ConfigError(f"{target} was asked for, and the lock names {name}@{locked.version}; `hub lock {target}`")
    return f"{name}@{locked.version}"


def check_installed(installation: Installation | None, target: str, lock: Lock) -> None:
    """Check that the installed bundle is the one that the lock names.

    Raises:
        ConfigError: another bundle is installed, or none.
    """
    locked = lock.find(target.partition("@")[0])
    if locked is None or (locked.bundle is None and installation is None):
        return  # judged by what its host says, once it is up
    if locked.bundle is None:
        raise ConfigError(
            f"the lock names {target} as it runs from its author's folder, and here it is installed; name the folder, "
            f"or lock what is installed with `hub lock {target}`"
        )
    if installation is None:
        raise ConfigError(f"the lock names {target}, which is not installed; run `hub install --locked`")
    here = installation.locked
    for what, before, now in (
        ("bundle", locked.bundle, here.bundle),
        ("list of dependencies", locked.dependencies_digest, here.dependencies_digest),
        ("Python", locked.python, here.python),
        ("signer", locked.key_id, here.key_id if locked.key_id is not None else None),
    ):
        if before != now:
            raise ConfigError(
                f"{target} is installed with another {what} than the lock names ({now or 'none'} instead of {before}); "
                "run `hub install --locked`"
            )


def check_hosted(info: EnvironmentInfo, lock: Lock) -> None:
    """Check that a hosted environment's version, code and tools are those that the lock names.

    Raises:
        ConfigError: they differ, or the lock does not name the environment.
    """
    locked = lock.find(info.name)
    if locked is None:
        known = ", ".join(each.name for each in lock.environments) or "none"
        raise ConfigError(f"the lock does not name {info.name!r}, only: {known}; `hub lock {info.name}` adds it")
    for what, before, now in (
        ("version", locked.version, info.version),
        ("code", locked.code, info.digest),
        ("tools", locked.tools, info.tools_digest),
    ):
        if before is not None and before != now:
            raise ConfigError(
                f"{info.name} is not what the lock names: its {what} is {now} instead of {before}; put back what it "
                f"was, or accept it with `hub lock {info.name}`"
            )


def lock_of(environments: Iterable[tuple[EnvironmentInfo, Installation | None]]) -> Lock:
    """The lock of environments as they are hosted now."""
    return Lock(hub_version=version("rollouthub"), contract=CONTRACT).with_environments(
        _locked(info, installation) for info, installation in environments
    )


def _locked(info: EnvironmentInfo, installation: Installation | None) -> LockedEnvironment:
    if installation is None:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        locked = LockedEnvironment(name=info.name, version=info.version, python=python)
    else:
        locked = installation.locked
    return locked.model_copy(update={"code": info.digest, "tools": info.tools_digest})
