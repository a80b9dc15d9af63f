"""`hub install --locked`: installs exactly what a `hub.lock` names, or fails."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment, check_contract, read_lock, remark_on_hub
from rollouthub_registry.client.address import registry_url
from rollouthub_registry.install_flow.argument import ArchiveArgument, FolderArgument, GitArgument, parse_source
from rollouthub_registry.install_flow.install_result import InstallResult, present
from rollouthub_registry.install_flow.pinned_install import install_and_pin, remember
from rollouthub_registry.install_flow.progress import ProgressReport
from rollouthub_registry.install_flow.project_lock import as_here
from rollouthub_registry.install_flow.retrieval import Consent, Retrieval
from rollouthub_registry.install_flow.scratch import scratch_folder
from rollouthub_registry.install_flow.user_folders import UserFolders
from rollouthub_registry.install_flow.verified_bundle import VerifiedBundle
from rollouthub_registry.names import Release


class NotAsLocked(ConfigError):
    """An environment in the lock cannot be had, or its bytes or key differ from the lock."""


@dataclass(frozen=True)
class Restoration:
    """The options of `hub install --locked`."""

    file: Path
    names: tuple[str, ...] = ()
    """Names of environments; empty for all in the lock."""
    source: str | None = None
    """URL of a registry to use instead of those in the lock; the bytes must be the same."""
    to_build: bool = False
    replaces: bool = False
    is_rehearsal: bool = False


async def restore(order: Restoration, place: UserFolders, telling: ProgressReport) -> list[InstallResult]:
    """Install the environments of a lock; if one is refused, none is installed.

    Raises:
        UsageError: the lock cannot be met.
        HubError: a registry or a repository cannot be reached.
    """
    lock = read_lock(order.file)
    check_contract(lock, order.file)
    if (remark := remark_on_hub(lock, order.file)) is not None:
        telling.warn(remark)
    chosen = list[LockedEnvironment]()
    for name in order.names or tuple(each.name for each in lock.environments):
        locked = lock.find(name)
        if locked is None:
            raise UnknownNameError(f"environment in {order.file}", name, [each.name for each in lock.environments])
        chosen.append(locked)
    for locked in chosen:
        _check(locked)
    # A lock is the user's word: yanked, failing and unsigned ones were taken before, by their digest.
    consent = Consent(to_failing_checks=True, to_unsigned=True, to_build=order.to_build)
    url = None if order.source is None else registry_url(order.source)
    with scratch_folder() as scratch:
        bringing = Retrieval(place, scratch, consent, telling)
        steps = list[tuple[VerifiedBundle | InstallResult, float]]()
        for locked in chosen:
            started = time.perf_counter()
            if locked.bundle is None:
                _check_hosted(locked, place, telling)
                continue
            step = await _as_there(locked, place, order) or await _brought(locked, url, bringing)
            steps.append((step, time.perf_counter() - started))
        return [await _settled(step, seconds, order, place, telling) for step, seconds in steps]


async def _settled(
    step: VerifiedBundle | InstallResult, before: float, order: Restoration, place: UserFolders, telling: ProgressReport
) -> InstallResult:
    started = time.perf_counter()
    if isinstance(step, VerifiedBundle):
        # What is there under this version is not what the lock names: that is why it was brought.
        step = await install_and_pin(step, place, telling, replaces=True, is_rehearsal=order.is_rehearsal)
    return step.after(before + time.perf_counter() - started)


async def _as_there(locked: LockedEnvironment, place: UserFolders, order: Restoration) -> InstallResult | None:
    there = place.home.find(f"{locked.name}@{locked.version}")
    if there is None or order.replaces or not _is_same(there, locked):
        return None
    await remember(there, place)
    return present(there)


def _is_same(there: Installation, locked: LockedEnvironment) -> bool:
    here = there.locked
    if locked.key_id not in (None, here.key_id):
        return False
    return (here.bundle, here.dependencies_digest) == (locked.bundle, locked.dependencies_digest)


async def _brought(locked: LockedEnvironment, url: str | None, bringing: Retrieval) -> VerifiedBundle:
    source = url or locked.source
    if source is None:
        raise NotAsLocked(f"the lock does not say where {locked.name} came from; name its registry with --registry URL")
    release = Release.parse(f"{locked.name}@{locked.version}")
    match parse_source(source):
        case None:
            brought = await bringing.locked(release, registry_url(source))
        case FolderArgument() as argument:
            brought = await bringing.folder(argument)
        case ArchiveArgument() as argument:
            brought = await bringing.archive(argument)
        case GitArgument() as argument:
            brought = await bringing.repository(argument)
    if brought.release != release or brought.bundle.digest != locked.bundle:
        raise NotAsLocked(
            f"the lock names {release} with the bytes {locked.bundle}, and {source} gives {brought.release} with "
            f"{brought.bundle.digest}; nothing is installed: find the bytes that were locked, or lock others with "
            f"`hub install` and `hub lock`"
        )
    if locked.key_id is not None and brought.origin.key_id != locked.key_id:
        signer = brought.origin.key_id or "no key"
        raise NotAsLocked(f"the lock says that {release} is signed by {locked.key_id}, and it is by {signer}")
    return brought.held_to(locked)


def _check(locked: LockedEnvironment) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if locked.python is not None and locked.python != here:
        raise NotAsLocked(
            f"{locked.name} is locked for Python {locked.python}, and this hub runs on {here}; use a hub on Python "
            f"{locked.python}, or lock anew: `hub install {locked.name}@{locked.version} --reinstall`, `hub lock`"
        )


def _check_hosted(locked: LockedEnvironment, place: UserFolders, telling: ProgressReport) -> None:
    """Check that an environment that comes with the hub is as the lock says; one in a folder is checked when it
    runs.
    """
    if "/" in locked.name:
        telling.warn(f"{locked.name} runs from its author's folder, where it is not installed from")
        return
    try:
        (here,) = as_here([locked.name], place)
    except UnknownNameError:
        telling.warn(f"{locked.name} runs from its author's file, where it is not installed from")
        return
    if here.version != locked.version or locked.code not in (None, here.code):
        raise NotAsLocked(
            f"the lock names {locked.name} {locked.version} ({locked.code or 'any code'}), and this hub comes with "
            f"{here.version} ({here.code}); install the hub that the lock was written with, or accept this one with "
            f"`hub lock {locked.name}`"
        )
