"""`hub upgrade`: installs the highest version from the registry of the installed one, which is kept."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rollouthub.errors import ConfigError, HubError
from rollouthub.plugins.installed import Installation
from rollouthub_registry.client.offer import Offer
from rollouthub_registry.client.source import open_source
from rollouthub_registry.client.version_ranges import VersionRequest
from rollouthub_registry.install_flow.argument import parse_source
from rollouthub_registry.install_flow.install_result import InstallResult, present
from rollouthub_registry.install_flow.pinned_install import install_and_pin
from rollouthub_registry.install_flow.progress import ProgressReport
from rollouthub_registry.install_flow.retrieval import Consent, Retrieval
from rollouthub_registry.install_flow.scratch import scratch_folder
from rollouthub_registry.install_flow.user_folders import UserFolders, version_of


@dataclass(frozen=True)
class Upgraded:
    """The results of an upgrade."""

    done: list[InstallResult]
    failed: list[HubError]
    """Environments that stay as they are, with the reason: damaged, registry not reachable, or no version eligible."""


async def upgrade(
    names: Sequence[str], consent: Consent, place: UserFolders, telling: ProgressReport, *, is_rehearsal: bool = False
) -> Upgraded:
    """Install the highest version of each environment, `namespace/name` or `namespace/name@RANGE`; by default of all.

    Raises:
        UsageError: an environment is not installed.
    """
    chosen, damaged = _chosen(names, place)
    upgraded = Upgraded([], [*damaged])
    with scratch_folder() as scratch:
        bringing = Retrieval(place, scratch, consent, telling)
        for wanted, installation in chosen:
            started = time.perf_counter()
            try:
                done = await _upgraded(wanted, installation, bringing, is_rehearsal)
            except HubError as error:
                if len(names) == 1:
                    raise
                upgraded.failed.append(error)
                continue
            upgraded.done.append(done.after(time.perf_counter() - started))
    return upgraded


async def _upgraded(
    wanted: VersionRequest, installation: Installation, bringing: Retrieval, is_rehearsal: bool
) -> InstallResult:
    source = installation.locked.source
    if source is None or parse_source(source) is not None:
        bringing.telling.warn(
            f"{installation.target} came from {source or 'nowhere'}, which has no versions; install it from there again"
        )
        return present(installation)
    async with open_source(source) as registry:
        offer = await bringing.wanted(wanted, registry)
        if offer.release.version <= version_of(installation):
            _refuse_going_back(wanted, offer, installation)
            return present(installation)
        brought = await bringing.offered(offer, registry)
    done = await install_and_pin(brought, bringing.place, bringing.telling, is_rehearsal=is_rehearsal)
    return replace(done, replaced=installation.locked.version)


def _refuse_going_back(wanted: VersionRequest, offer: Offer, installation: Installation) -> None:
    if wanted.versions.bounds and not wanted.versions.holds(version_of(installation)):
        raise ConfigError(
            f"{installation.target} is installed, and the highest that {str(wanted.versions)!r} allows is "
            f"{offer.release.version}; an upgrade goes up: `hub install {offer.release}` installs that one beside it"
        )


def _chosen(
    names: Sequence[str], place: UserFolders
) -> tuple[list[tuple[VersionRequest, Installation]], list[ConfigError]]:
    if not names:
        readable, damaged = place.home.readable()
        return [_named(name, place) for name in sorted({each.name for each in readable})], damaged
    return [_named(name, place) for name in dict.fromkeys(names)], []


def _named(name: str, place: UserFolders) -> tuple[VersionRequest, Installation]:
    """The request, and the installation to compare with: the highest in its range, else the highest of all."""
    package, wanted = place.named(name, "upgrade"), VersionRequest.parse(name)
    there = place.installed(package)
    if not there:
        raise ConfigError(
            f"what is installed of {package} is damaged; put it back with `hub install {package} --reinstall`"
        )
    fitting = [each for each in there if wanted.versions.holds(version_of(each))]
    return wanted, (fitting or there)[-1]
