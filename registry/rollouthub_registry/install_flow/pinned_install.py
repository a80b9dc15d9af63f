"""Installs a verified bundle and pins its key and version in the trust store."""

import contextlib
from functools import partial

from anyio import to_thread

from rollouthub.errors import UsageError
from rollouthub.plugins.installed import Installation
from rollouthub_registry.install.install_home import STATEMENT
from rollouthub_registry.install.installation import install
from rollouthub_registry.install_flow.install_result import InstallResult, installed, planned, present
from rollouthub_registry.install_flow.progress import ProgressReport
from rollouthub_registry.install_flow.user_folders import UserFolders
from rollouthub_registry.install_flow.verified_bundle import VerifiedBundle
from rollouthub_registry.names import Release
from rollouthub_registry.trust.signatures import parse_envelope


async def install_and_pin(
    brought: VerifiedBundle,
    place: UserFolders,
    telling: ProgressReport,
    *,
    replaces: bool = False,
    is_rehearsal: bool = False,
) -> InstallResult:
    """Install a verified bundle, unless the same bytes are installed, and pin its key.

    Raises:
        UsageError: it cannot be installed, or another process pinned another key meanwhile.
    """
    there = None if replaces else place.home.find(str(brought.release))
    if there is not None:
        if is_the_same(there, brought):
            await remember(there, place)
            return present(there)
        raise UsageError(
            f"{brought.release} is installed from {there.locked.source} with other bytes ({there.locked.bundle}, and "
            f"this is {brought.bundle.digest}); raise its version, or put this in its place with --reinstall"
        )
    if is_rehearsal:
        return planned(brought)
    installation = await to_thread.run_sync(
        partial(
            install,
            brought.bundle,
            brought.origin,
            place.home,
            locked=brought.locked,
            replace=replaces,
            note=telling.note,
        )
    )
    if brought.envelope is not None:
        try:
            await to_thread.run_sync(
                partial(place.trust.admit, brought.envelope, brought.bundle.digest, brought.release, is_exact=True)
            )
        except BaseException:
            # What is not remembered would be believed again from anyone.
            await to_thread.run_sync(place.home.remove, brought.release)
            raise
    return installed(brought, installation)


async def remember(installation: Installation, place: UserFolders) -> None:
    """Record the key and version of an installed package that a killed installation left unrecorded."""
    locked = installation.locked
    if locked.key_id is None or locked.bundle is None:
        return
    release = Release.parse(installation.target)
    if str(release.version) in place.trust.pins().seen.get(str(release.package), {}):
        return
    with contextlib.suppress(OSError):
        raw = (place.home.folder(release) / STATEMENT).read_bytes()
        await to_thread.run_sync(partial(place.trust.admit, parse_envelope(raw), locked.bundle, release, is_exact=True))


def is_the_same(installation: Installation, brought: VerifiedBundle) -> bool:
    """Whether the installed version is, byte for byte, the one to be installed."""
    here, wanted = installation.locked, brought.locked
    if here.bundle != brought.bundle.digest:
        return False
    return wanted is None or (here.dependencies_digest, here.python) == (wanted.dependencies_digest, wanted.python)
