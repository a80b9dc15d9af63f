"""Selects one of the versions that a registry offers, and explains why no other was eligible."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rollouthub.errors import UsageError
from rollouthub.plugins.env_toml import CONTRACT
from rollouthub.text import one_line
from rollouthub_registry.client.client_error import NotPublished
from rollouthub_registry.client.offer import Offer
from rollouthub_registry.client.version_ranges import VersionRequest
from rollouthub_registry.names import Version
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.trust_error import Replayed

_SHOWN = 8


class NotTaken(UsageError):
    """No version that was offered may be installed."""


@dataclass(frozen=True)
class Choice:
    """The chosen version."""

    offer: Offer
    remarks: tuple[str, ...] = ()
    """Remarks for the user on higher versions that were not eligible."""


def choose(
    wanted: VersionRequest, offers: Sequence[Offer], source: str, pins: Pins, *, allow_failing: bool = False
) -> Choice:
    """The highest requested version that is not yanked and has this hub's contract.

    Raises:
        NotPublished: no version matches the request.
        NotTaken: the matching versions are yanked, failed their checks, or have another contract.
        TrustRefused: its key is not the pinned one, or a newer version was seen before.
    """
    within = [offer for offer in offers if wanted.versions.holds(offer.release.version)]
    if not within:
        raise NotPublished(_nothing_within(wanted, offers, source))
    fit = [offer for offer in within if offer.yanked is None and offer.contract == CONTRACT]
    if not fit:
        raise NotTaken(_nothing_fits(within, offers))
    best = max(fit, key=_version)
    if not best.checks_passed and not allow_failing:
        raise NotTaken(failing(str(best.release), _other(fit)))
    passed_over = [offer for offer in within if offer.release.version > best.release.version]
    remarks = tuple(f"{offer.release} is passed over: {_against(offer)}" for offer in passed_over)
    pins.check_key(best.release.package.namespace, best.key_id)
    pins.check_version(best.release, best.digest, is_exact=True)
    _check_not_replayed(wanted, best, passed_over, pins)
    return Choice(best, remarks)


def failing(release: str, other: Offer | None = None) -> str:
    """The error message for an environment that failed its checks."""
    instead = f"; {other.release} passed them" if other is not None else ""
    return (
        f"{release} was published although it failed its checks (`hub info {release}` shows which){instead}; to have "
        "it nevertheless, add --allow-failing-checks"
    )


def _check_not_replayed(wanted: VersionRequest, best: Offer, passed_over: Sequence[Offer], pins: Pins) -> None:
    """Check that no higher matching version was seen on this machine before."""
    seen = map(Version.parse, pins.seen.get(str(wanted.package), {}))
    newer = [version for version in seen if wanted.versions.holds(version) and version > best.release.version]
    if not newer:
        return
    gone = max(newer)
    why = next(
        (_against(offer) for offer in passed_over if offer.release.version == gone), "it is not offered any more"
    )
    raise Replayed(
        f"{best.release} is the newest that can be had, but {gone} was there before ({why}): an old version may be "
        f"replayed; to have it nevertheless, ask for it exactly: {best.release}"
    )


def _nothing_within(wanted: VersionRequest, offers: Sequence[Offer], source: str) -> str:
    versions = _listed(offer.release.version for offer in offers)
    text = f"{source} has no version of {wanted.package} that {str(wanted.versions)!r} allows; it has {versions}"
    if offers and all(offer.release.version.prerelease for offer in offers):
        text += f"; a prerelease is had by its name: {max(offers, key=_version).release}"
    return text


def _nothing_fits(within: Sequence[Offer], offers: Sequence[Offer]) -> str:
    first, *more = sorted(within, key=lambda offer: offer.release.version, reverse=True)
    said = f"{first.release} is not installed: {_against(first)}"
    if more:
        said += f" (nor are {_listed(offer.release.version for offer in more)})"
    other = _other(offers)
    return said + (f"; {other.release} can be had" if other is not None else "; nothing else is offered")


def _against(offer: Offer) -> str:
    if offer.yanked is not None:
        return f"it was yanked: {one_line(offer.yanked) or 'no reason was given'}"
    if offer.contract != CONTRACT:
        return f"it speaks contract {offer.contract}, and this hub {CONTRACT}; take a hub that fits"
    return "it failed its checks"


def _other(offers: Iterable[Offer]) -> Offer | None:
    """The highest other version that could be installed; a prerelease only if there is nothing else."""
    fit = [offer for offer in offers if offer.yanked is None and offer.contract == CONTRACT and offer.checks_passed]
    return max(fit, key=lambda offer: (not offer.release.version.prerelease, offer.release.version), default=None)


def _version(offer: Offer) -> Version:
    return offer.release.version


def _listed(versions: Iterable[Version]) -> str:
    some = sorted(versions, reverse=True)
    more = f" and {len(some) - _SHOWN} more" if len(some) > _SHOWN else ""
    return (", ".join(map(str, some[:_SHOWN])) or "none") + more
