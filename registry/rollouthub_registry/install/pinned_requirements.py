"""Dependencies as a list of requirements with hashes."""

import re
from collections.abc import Iterable, Sequence

from packaging.utils import canonicalize_name

from rollouthub.plugins.lock import LockedDependency
from rollouthub_registry.bundle.hub_wheel import DISTRIBUTION
from rollouthub_registry.install.install_error import InstallRefused
from rollouthub_registry.install.venv_contents import VenvContents

_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def asked(wanted: VenvContents) -> str:
    """The requirements to resolve."""
    return "".join(f"{line}\n" for line in (*(wheel.requirement for wheel in wanted.wheels), *wanted.requirements))


def pinned(wanted: VenvContents, dependencies: Sequence[LockedDependency]) -> str:
    """Requirements with hashes, which only the locked files meet.

    Raises:
        InstallRefused: a dependency has the name of a local wheel, or is invalid.
    """
    chosen = (
        f"{each.name}=={each.version} {' '.join(f'--hash={digest}' for digest in each.hashes)}"
        for each in checked(wanted, dependencies)
    )
    return "".join(f"{line}\n" for line in (*(wheel.pinned for wheel in wanted.wheels), *chosen))


def checked(wanted: VenvContents, dependencies: Iterable[LockedDependency]) -> tuple[LockedDependency, ...]:
    """The dependencies, validated and sorted by name.

    Raises:
        InstallRefused: see `pinned`.
    """
    here = {wheel.name for wheel in wanted.wheels} | {DISTRIBUTION}
    kept: dict[str, LockedDependency] = {}
    for each in dependencies:
        name = canonicalize_name(each.name)
        if name in here:
            raise InstallRefused(
                f"it needs {each.name!r} beside what is installed here already; a declared server cannot have the hub"
                if name == DISTRIBUTION
                else f"{each.name!r} is the environment itself and none of its dependencies"
            )
        if not _PINNED.fullmatch(f"{each.name}=={each.version}"):
            raise InstallRefused(f"the dependency {each.name!r} {each.version!r} is no distribution and version")
        if not each.hashes or not all(_HASH.fullmatch(digest) for digest in each.hashes):
            raise InstallRefused(f"the dependency {each.name} {each.version} has no SHA-256 hashes to hold it to")
        if name in kept:
            raise InstallRefused(f"the dependency {each.name!r} is there twice")
        kept[name] = each.model_copy(update={"name": name})
    return tuple(kept[name] for name in sorted(kept))
