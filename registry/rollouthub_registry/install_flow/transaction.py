"""`hub install`: fetches and verifies everything that was requested, and installs only when all of it is valid."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rollouthub.errors import ConfigError, UsageError
from rollouthub.plugins.installed import Installation
from rollouthub_registry.client.address import registry_url
from rollouthub_registry.client.offer import Offer
from rollouthub_registry.client.source import open_source
from rollouthub_registry.client.version_ranges import VersionRequest
from rollouthub_registry.install_flow.argument import (
    ArchiveArgument,
    Argument,
    FolderArgument,
    GitArgument,
    parse_argument,
)
from rollouthub_registry.install_flow.install_result import InstallResult, present
from rollouthub_registry.install_flow.pinned_install import install_and_pin, remember
from rollouthub_registry.install_flow.progress import ProgressReport
from rollouthub_registry.install_flow.retrieval import Consent, Retrieval
from rollouthub_registry.install_flow.scratch import scratch_folder
from rollouthub_registry.install_flow.user_folders import UserFolders, version_of
from rollouthub_registry.install_flow.verified_bundle import VerifiedBundle
from rollouthub_registry.names import PackageName


@dataclass(frozen=True)
class InstallRequest:
    """What to install, and how."""

    arguments: tuple[str, ...]
    source: str | None = None
    """URL of the registry to install packages from, instead of the one in the user's settings."""
    consent: Consent = field(default_factory=Consent)
    replaces: bool = False
    """Whether installed versions are installed again."""
    is_rehearsal: bool = False


class OtherSource(UsageError):
    """The installed package came from another source."""


@dataclass(frozen=True)
class _Step:
    """One requested package, fetched or found installed."""

    brought: VerifiedBundle | InstallResult
    replaces: bool
    seconds: float


async def install_requested(order: InstallRequest, place: UserFolders, telling: ProgressReport) -> list[InstallResult]:
    """Install what was requested; if one is refused, none is installed.

    Raises:
        UsageError: something cannot be installed as requested.
        HubError: a registry or a repository cannot be reached.
    """
    here, url = place.here, None if order.source is None else registry_url(order.source)
    arguments = [parse_argument(text, here, is_package=url is not None) for text in order.arguments]
    if url is not None and (odd := next((each for each in arguments if not isinstance(each, VersionRequest)), None)):
        raise ConfigError(f"--registry names the registry of packages; {odd.source} says itself where it comes from")
    with scratch_folder() as scratch:
        bringing = Retrieval(place, scratch, order.consent, telling)
        steps = [await _step(argument, order, url, bringing) for argument in arguments]
        _refuse_two_of_one([step.brought for step in steps if isinstance(step.brought, VerifiedBundle)])
        done = list[InstallResult]()
        for step in steps:
            started = time.perf_counter()
            if isinstance(step.brought, InstallResult):
                settled = step.brought
            else:
                settled = await install_and_pin(
                    step.brought, place, telling, replaces=step.replaces, is_rehearsal=order.is_rehearsal
                )
            done.append(settled.after(step.seconds + time.perf_counter() - started))
        return done


async def _step(argument: Argument, order: InstallRequest, url: str | None, bringing: Retrieval) -> _Step:
    started, replaces = time.perf_counter(), order.replaces
    match argument:
        case VersionRequest():
            brought, replaces = await _package(argument, order, url, bringing)
        case FolderArgument():
            brought = await bringing.folder(argument)
        case ArchiveArgument():
            brought = await bringing.archive(argument)
        case GitArgument():
            brought = await bringing.repository(argument)
    return _Step(brought, replaces, time.perf_counter() - started)


async def _package(
    wanted: VersionRequest, order: InstallRequest, url: str | None, bringing: Retrieval
) -> tuple[VerifiedBundle | InstallResult, bool]:
    """Fetch a package from a registry, unless it is installed; and whether it replaces an installed one."""
    place = bringing.place
    there = place.installed(wanted.package)
    source = url or source_of(wanted.package, there, place)
    fits = [each for each in there if wanted.versions.holds(version_of(each)) and each.locked.source == source]
    is_asked = order.replaces or wanted.versions.text == "latest"
    if fits and not is_asked:
        await remember(fits[-1], place)
        return present(fits[-1]), False
    async with open_source(source) as registry:
        offer = await bringing.wanted(wanted, registry)
        same = next((each for each in there if each.target == str(offer.release)), None)
        if same is not None and not order.replaces:
            if same.locked.bundle != offer.digest:
                raise _others_bytes(same, offer, source)
            if same.locked.source == source:
                return present(same), False
        return await bringing.offered(offer, registry), order.replaces or same is not None


def source_of(package: PackageName, there: Sequence[Installation], place: UserFolders) -> str:
    """The registry that a package comes from, if none was given.

    Raises:
        OtherSource: the installed package came from another source.
        ConfigError: no registry matches its namespace.
    """
    sources = tuple(dict.fromkeys(each.locked.source for each in reversed(there) if each.locked.source is not None))
    try:
        source = place.registries.source_of(package.namespace)
    except ConfigError:
        # Nobody else could be meant.
        if len(sources) == 1 and sources[0].startswith(("http://", "https://", "file://")):
            return sources[0]
        raise
    if sources and source not in sources:
        before = sources[0]
        again = f"--registry {before} for the one it came from, or " if "://" in before and " " not in before else ""
        raise OtherSource(
            f"{package} is installed from {before}, and your registries name {source} for it; a package does not "
            f"change its source by itself: say {again}--registry {source} to take it from there now"
        )
    return source


def _others_bytes(there: Installation, offer: Offer, source: str) -> UsageError:
    return UsageError(
        f"{there.target} is installed from {there.locked.source} with other bytes ({there.locked.bundle}) than "
        f"{source} offers ({offer.digest}); `hub remove {there.target}` first, or put this in its place with "
        "--reinstall"
    )


def _refuse_two_of_one(some: Sequence[VerifiedBundle]) -> None:
    seen = dict[str, str]()
    for brought in some:
        digest = brought.bundle.digest
        if seen.setdefault(str(brought.release), digest) != digest:
            raise ConfigError(f"{brought.release} is asked for twice, with different bytes; leave one out")
