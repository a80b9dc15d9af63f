"""`InstallResult`: the outcome of one requested package."""

from dataclasses import dataclass, replace
from typing import Literal

from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub_registry.install_flow.verified_bundle import VerifiedBundle

State = Literal["installed", "present", "planned"]
"""Installed now, installed before, or (in a dry run) would be installed."""


@dataclass(frozen=True)
class InstallResult:
    """The result for one environment."""

    state: State
    locked: LockedEnvironment
    """Its exact bytes; without dependencies if it is only planned."""
    secrets: tuple[str, ...] = ()
    """Environment variables that it needs."""
    licence: str | None = None
    """Its licence as an SPDX expression; None if its manifest has none, or it was installed before."""
    is_new_key: bool = False
    """Whether its key is the first one trusted for its namespace on this machine."""
    checks_passed: bool | None = None
    """Whether its checks passed, according to its publisher; None if it is unsigned."""
    replaced: str | None = None
    """The version that the bare name meant before."""
    seconds: float = 0.0

    @property
    def target(self) -> str:
        """Its name and version: `namespace/name@version`."""
        return f"{self.locked.name}@{self.locked.version}"

    def after(self, seconds: float) -> "InstallResult":
        """A copy of this result with the seconds that it took."""
        return replace(self, seconds=seconds)


def present(installation: Installation) -> InstallResult:
    """The result for a version that is installed already."""
    return InstallResult("present", installation.locked, secrets=installation.secrets)


def planned(brought: VerifiedBundle) -> InstallResult:
    """The result for a version that would be installed."""
    release, origin = brought.release, brought.origin
    bare = LockedEnvironment(
        name=str(release.package),
        version=str(release.version),
        bundle=brought.bundle.digest,
        source=origin.source,
        key_id=origin.key_id,
    )
    return _of(brought, "planned", brought.locked or bare)


def installed(brought: VerifiedBundle, installation: Installation) -> InstallResult:
    """The result for a version that was installed."""
    return _of(brought, "installed", installation.locked)


def _of(brought: VerifiedBundle, state: State, locked: LockedEnvironment) -> InstallResult:
    manifest = brought.bundle.manifest
    return InstallResult(
        state,
        locked,
        secrets=manifest.needed_variables,
        licence=manifest.license,
        is_new_key=brought.is_new_key,
        checks_passed=brought.origin.checks_passed,
    )
