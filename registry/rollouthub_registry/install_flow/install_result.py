"""`Done`: what became of one thing that was asked for."""

from dataclasses import dataclass, replace
from typing import Literal

from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub_registry.install_flow.verified_bundle import Brought

State = Literal["installed", "present", "planned"]
"""Installed just now; there already; what would be installed, were this no rehearsal."""


@dataclass(frozen=True)
class Done:
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

    def after(self, seconds: float) -> "Done":
        """This, with how long it took."""
        return replace(self, seconds=seconds)


def present(installation: Installation) -> Done:
    """What is there already."""
    return Done("present", installation.locked, secrets=installation.secrets)


def planned(brought: Brought) -> Done:
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


def installed(brought: Brought, installation: Installation) -> Done:
    """What was installed."""
    return _of(brought, "installed", installation.locked)


def _of(brought: Brought, state: State, locked: LockedEnvironment) -> Done:
    manifest = brought.bundle.manifest
    return Done(
        state,
        locked,
        secrets=manifest.needed_variables,
        licence=manifest.license,
        is_new_key=brought.is_new_key,
        checks_passed=brought.origin.checks_passed,
    )
