"""`VerifiedBundle`: a bundle that was fetched or built and passed verification, not yet installed."""

import json
from dataclasses import dataclass, replace

from pydantic import ValidationError

from rollouthub.errors import UsageError
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub.plugins.manifest import Manifest
from rollouthub_registry.bundle.attestation import Envelope
from rollouthub_registry.bundle.bundle import Bundle
from rollouthub_registry.install.installation import Origin
from rollouthub_registry.names import Release
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signatures import parse_envelope, verify
from rollouthub_registry.trust.trust_error import SignatureRefused


@dataclass(frozen=True)
class VerifiedBundle:
    """What is about to be installed."""

    bundle: Bundle
    origin: Origin
    envelope: Envelope | None
    """What its publisher signed; None of an unsigned one."""
    is_new_key: bool = False
    """Whether its namespace had no key before."""
    locked: LockedEnvironment | None = None
    """What a lock says of it; it is installed just so."""

    @property
    def release(self) -> Release:
        """Which version of which package it is."""
        return self.bundle.release

    def held_to(self, locked: LockedEnvironment) -> "VerifiedBundle":
        """This, as a lock has it."""
        return replace(self, locked=locked)


class Unsigned(UsageError):
    """A bundle that nobody signed, and that was not asked for as such."""


def signed(bundle: Bundle, release: Release, source: str, raw: bytes, pins: Pins) -> VerifiedBundle:
    """Take a bundle with its statement, once that holds for just this release.

    A key is believed where its namespace has none: whoever installs is told which, and it stays the only one.

    Raises:
        TrustRefused: it does not hold.
    """
    envelope = parse_envelope(raw)
    # Whether a newer one was there before is judged where the version is chosen, with the range in view.
    predicate = verify(envelope, bundle.digest, release, pins, is_exact=True).predicate
    if bundle.release != release:
        raise SignatureRefused(f"{release} was asked for, but the bundle says that it is {bundle.release}")
    if _manifest(predicate.manifest, release) != bundle.manifest:
        raise SignatureRefused(f"the manifest that was signed with {release} is not the one in its bundle")
    origin = Origin(source, envelope.signatures[0].keyid, predicate.tools_digest, predicate.check.passed, raw)
    return VerifiedBundle(bundle, origin, envelope, is_new_key=release.package.namespace not in pins.namespaces)


def unsigned(bundle: Bundle, source: str, pins: Pins) -> VerifiedBundle:
    """Take a bundle that nobody signed.

    Raises:
        Replayed: it has other bytes than a signed bundle of this release that was here before.
    """
    pins.check_version(bundle.release, bundle.digest, is_exact=True)
    return VerifiedBundle(bundle, Origin(source, None, None, None), None)


def _manifest(said: object, release: Release) -> Manifest:
    try:
        return Manifest.model_validate_json(json.dumps(said), strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        raise SignatureRefused(f"the manifest that was signed with {release} is none: {problem['msg']}") from error
