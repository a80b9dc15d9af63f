"""Signs and verifies statements about audits, with the keys that sign publications."""

from dataclasses import dataclass
from importlib.metadata import version

from pydantic import ValidationError

from rollouthub.errors import invalid_fields
from rollouthub_registry.bundle.attestation import AuditSummary
from rollouthub_registry.bundle.audit_statement import AuditPredicate, AuditStatement
from rollouthub_registry.names import NameRefused, Release
from rollouthub_registry.trust.keys import Key
from rollouthub_registry.trust.signatures import open_payload, parse_envelope, sign_payload
from rollouthub_registry.trust.trust_error import SignatureRefused


@dataclass(frozen=True)
class SignedAudit:
    """An audit and the id of the key that signed it; the reader decides whom to believe."""

    audit: AuditSummary
    key_id: str
    hub_version: str


def sign_audit(release: Release, digest: str, audit: AuditSummary, key: Key) -> bytes:
    """The envelope with the signed statement about an audit of a bundle."""
    predicate = AuditPredicate(audit=audit, hub_version=version("rollouthub"))
    statement = AuditStatement.about(release, digest, predicate)
    return sign_payload(statement.model_dump_json().encode(), key).model_dump_json().encode() + b"\n"


def open_audit(content: bytes, release: Release, digest: str) -> SignedAudit:
    """Check that an envelope is a signed audit of just this bundle.

    Raises:
        SignatureRefused: it is not, or its signature is invalid.
    """
    payload, key = open_payload(parse_envelope(content))
    try:
        statement = AuditStatement.model_validate_json(payload)
        told = statement.release, statement.digest
    except ValidationError as error:
        raise SignatureRefused(f"what is signed is no audit of ours: {invalid_fields(error)}") from error
    except NameRefused as error:
        raise SignatureRefused(f"the audit speaks of no release: {error}") from error
    if told != (release, digest):
        raise SignatureRefused(f"the audit of {release} ({digest}) speaks of {told[0]} ({told[1]})")
    return SignedAudit(statement.predicate.audit, key.id, statement.predicate.hub_version)
