"""`hub info`: a package's installed versions, offered versions, and trusted keys."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from rollouthub.plugins.installed import Installation
from rollouthub.plugins.manifest import Manifest, load_manifest
from rollouthub_registry.bundle.attestation import Predicate
from rollouthub_registry.client.client_error import NotPublished
from rollouthub_registry.client.name_suggestion import offers_or_nearest
from rollouthub_registry.client.offer import Offer
from rollouthub_registry.client.source import open_source
from rollouthub_registry.client.version_ranges import VersionRequest
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signatures import open_envelope
from rollouthub_registry.trust.signed_audits import SignedAudit, open_audit
from rollouthub_registry.trust.trust_error import SignatureRefused

KeyStanding = Literal["pinned", "not pinned yet", "not the pinned one"]


@dataclass(frozen=True)
class Said:
    """What the publisher of an offer stated and signed."""

    predicate: Predicate
    secrets: tuple[str, ...]
    """Environment variables that the environment needs."""
    unpromised: tuple[str, ...]
    """What it cannot promise, where it was made from others' work."""


@dataclass(frozen=True)
class Offered:
    """A package in one registry."""

    source: str
    versions: list[Offer]
    chosen: Offer | None
    """The version that would be installed; None if none is eligible."""
    said: Said | None
    audit: SignedAudit | None = None
    """An audit by who keeps the registry, whose signature holds; None if there is none."""


async def look_up(url: str, wanted: VersionRequest) -> Offered:
    """Ask a registry about a package.

    Raises:
        NotPublished: the registry does not have the package or version.
        SignatureRefused: the registry's description of the version differs from what was signed.
        RegistryFault: the registry did not answer.
    """
    async with open_source(url) as source:
        offers = await offers_or_nearest(source, wanted.package)
        chosen = choose(offers, wanted)
        if chosen is None and wanted.versions.is_exact:
            raise NotPublished(
                f"{wanted} is not published at {source.url}; there is {_some([o for o in offers if o.yanked is None])}"
            )
        if chosen is None:
            return Offered(source.url, offers, None, None)
        envelope, _ = await source.statement(chosen.release)
        audited = await source.audit(chosen.release)
    signed = open_envelope(envelope)
    statement = signed.statement
    told = (chosen.release, chosen.digest, chosen.key_id)
    if (statement.release, statement.digest, signed.key.id) != told:
        raise SignatureRefused(
            f"the registry {url} says of {chosen.release} what was not signed: it tells of {chosen.digest} by the key "
            f"{chosen.key_id}; signed is {statement.release}, {statement.digest}, by {signed.key.id}"
        )
    manifest = _manifest(statement.predicate)
    secrets = () if manifest is None else manifest.needed_variables
    audit = None if audited is None else open_audit(audited, chosen.release, chosen.digest)
    return Offered(url, offers, chosen, Said(statement.predicate, secrets, unpromised_in(manifest)), audit)


def choose(offers: Sequence[Offer], wanted: VersionRequest) -> Offer | None:
    """The offer that a version range selects: the highest not yanked, or the one version that is named exactly."""
    by_version = {offer.release.version: offer for offer in offers}
    if wanted.versions.exact is not None:
        return by_version.get(wanted.versions.exact)
    best = wanted.versions.best(version for version, offer in by_version.items() if offer.yanked is None)
    return None if best is None else by_version[best]


def standing(key_id: str, namespace: str, pins: Pins) -> KeyStanding:
    """How a key relates to the keys pinned for a namespace."""
    pinned = pins.namespaces.get(namespace)
    if pinned is None:
        return "not pinned yet"
    return "pinned" if key_id in pinned else "not the pinned one"


def differing(installed: Sequence[Installation], offered: Offered) -> list[str]:
    """Installed versions for which the registry offers other bytes, although a version must never change."""
    digests = {str(offer.release.version): offer.digest for offer in offered.versions}
    return [
        each.locked.version
        for each in installed
        if each.locked.bundle is not None and digests.get(each.locked.version, each.locked.bundle) != each.locked.bundle
    ]


def as_json(
    wanted: VersionRequest, installed: Sequence[Installation], offered: Offered | None, problem: str | None, pins: Pins
) -> dict[str, Any]:
    """All that is known of a package, as JSON."""
    return {
        "name": str(wanted.package),
        "pinned_keys": list(pins.namespaces.get(wanted.package.namespace, ())),
        "installed": [_installed_json(each) for each in installed],
        "offered": None if offered is None else _offered_json(offered, pins),
        "differing": [] if offered is None else differing(installed, offered),
        "problem": problem,
    }


def declared_agent(installation: Installation) -> str | None:
    """The agent that plays the environment by default; None for a class, which only its own process can load."""
    return None if installation.is_class else load_manifest(installation.file).default_agent


def _installed_json(installation: Installation) -> dict[str, Any]:
    locked = installation.locked
    return {
        "version": locked.version,
        "digest": locked.bundle,
        "source": locked.source,
        "key_id": locked.key_id,
        "python": locked.python,
        "secrets": list(installation.secrets),
        "wall": not installation.needs_no_wall,
        "default_agent": declared_agent(installation),
        "unpromised": list(unpromised_in(load_manifest(installation.file))),
        "folder": str(Path(installation.file).parent),
        "dependencies": [{"name": each.name, "version": each.version} for each in locked.dependencies],
    }


def _offered_json(offered: Offered, pins: Pins) -> dict[str, Any]:
    chosen, said, later = offered.chosen, offered.said, offered.audit
    whole: dict[str, Any] | None = None
    if chosen is not None and said is not None:
        whole = chosen.model_dump(mode="json", exclude={"release", "audit"})
        whole |= {
            "version": str(chosen.release.version),
            "key": standing(chosen.key_id, chosen.release.package.namespace, pins),
            "secrets": list(said.secrets),
            "unpromised": list(said.unpromised),
            "audit": None if said.predicate.audit is None else said.predicate.audit.model_dump(mode="json"),
            "registry_audit": None if later is None else later.audit.model_dump(mode="json") | {"key_id": later.key_id},
            "tools_digest": said.predicate.tools_digest,
            "signed_at": said.predicate.created_at.isoformat(),
            "hub_version": said.predicate.hub_version,
        }
    versions = [
        {"version": str(each.release.version), "digest": each.digest, "yanked": each.yanked}
        for each in offered.versions
    ]
    return {"from": offered.source, "chosen": whole, "versions": versions}


def unpromised_in(manifest: Manifest | None) -> tuple[str, ...]:
    """What an environment cannot promise, by its manifest."""
    return () if manifest is None or manifest.adopted_from is None else manifest.adopted_from.unpromised


def _manifest(predicate: Predicate) -> Manifest | None:
    """The manifest; None where it is of another hub's format."""
    try:
        return Manifest.model_validate_json(json.dumps(predicate.manifest), strict=True)
    except ValidationError:
        return None


def _some(offers: Sequence[Offer]) -> str:
    versions = ", ".join(str(offer.release.version) for offer in offers[:8])
    return (versions or "none that is not yanked") + (f" and {len(offers) - 8} more" if len(offers) > 8 else "")
