"""`VerifiedBundle`: a bundle that was fetched or built and passed verification, not yet installed."""

import json
from dataclasses import dataclass, replace

from pydantic import ValidationError

from rollouthub.errors import UsageError, invalid_fields
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
    """A verified bundle that is ready to be installed."""

    bundle: Bundle
    origin: Origin
    envelope: Envelope | None
    """The signed envelope; None if the bundle is unsigned."""
    is_new_key: bool = False
    """Whether its namespace had no pinned key before."""
    locked: LockedEnvironment | None = None
    """The lock entry that the installation must match; None if there is none."""

    @property
    def release(self) -> Release:
        """The package and version of the bundle."""
        return self.bundle.release

    def held_to(self, locked: LockedEnvironment) -> "VerifiedBundle":
        """A copy that must be installed as the lock entry says."""
        return replace(self, locked=locked)


class Unsigned(UsageError):
    """A bundle is unsigned, and the user did not consent to that."""


def signed(bundle: Bundle, release: Release, source: str, raw: bytes, pins: Pins) -> VerifiedBundle:
    """Verify a bundle with its statement for this release.

    A key is accepted if its namespace has none; the user is shown which, and it is pinned at installation.

    Raises:
        TrustRefused: the statement does not verify.
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
    """Accept an unsigned bundle.

    Raises:
        Replayed: a signed bundle of this release with other bytes was seen before.
    """
    pins.check_version(bundle.release, bundle.digest, is_exact=True)
    return VerifiedBundle(bundle, Origin(source, None, None, None), None)


def _manifest(said: object, release: Release) -> Manifest:
    try:
        return Manifest.model_validate_json(json.dumps(said), strict=True)
    except ValidationError as error:
        raise SignatureRefused(
            f"the manifest that was signed with {release} is none: {invalid_fields(error)}"
        ) from error
