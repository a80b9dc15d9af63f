"""`InstallResult`: the outcome of one requested package."""

from dataclasses import dataclass, replace
from typing import Literal

from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub_registry.install_flow.verified_bundle import VerifiedBundle

State = Literal["installed", "present", "planned"]
"""Installed just now; there already; what would be installed, were this no rehearsal."""


@dataclass(frozen=True)
class InstallResult:
    """One environment."""

    state: State
    locked: LockedEnvironment
    """The bytes of it; without its dependencies where it is but planned."""
    secrets: tuple[str, ...] = ()
    """The environment variables it needs."""
    licence: str | None = None
    """An SPDX expression; None where it says none, or was there already."""
    is_new_key: bool = False
    """Whether its key is the first of its namespace here."""
    checks_passed: bool | None = None
    """As its publisher says; None where nobody does."""
    replaced: str | None = None
    """The version that a bare name meant before."""
    seconds: float = 0.0

    @property
    def target(self) -> str:
        """`namespace/name@version`."""
        return f"{self.locked.name}@{self.locked.version}"

    def after(self, seconds: float) -> "InstallResult":
        """This, with how long it took."""
        return replace(self, seconds=seconds)


def present(installation: Installation) -> InstallResult:
    """What is there already."""
    return InstallResult("present", installation.locked, secrets=installation.secrets)


def planned(brought: VerifiedBundle) -> InstallResult:
    """What would be installed."""
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
    """What was installed."""
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
