"""What somebody signs who audited a published bundle: an in-toto statement of its own kind, in a DSSE envelope.

It is no publisher's statement: its type differs, so that neither can be taken for the other.
"""

from typing import Literal

from pydantic import ConfigDict, Field

from rollouthub.values import Frozen
from rollouthub_registry.bundle.attestation import STATEMENT_TYPE, AuditSummary, StatementSubject, SubjectDigest
from rollouthub_registry.names import Release

AUDIT_TYPE: Literal["urn:envhub:audit:v1"] = "urn:envhub:audit:v1"


class AuditPredicate(Frozen):
    """What the auditor states about the bundle."""

    audit: AuditSummary
    hub_version: str = Field(min_length=1, max_length=60)
    """Version of the hub that audited it, and with it of its library of cheats."""


class AuditStatement(Frozen):
    """The signed content: which bundle was audited, and what was found."""

    model_config = ConfigDict(serialize_by_alias=True)

    type: Literal["https://in-toto.io/Statement/v1"] = Field(validation_alias="_type", serialization_alias="_type")
    subject: tuple[StatementSubject, ...] = Field(min_length=1, max_length=1)
    predicate_type: Literal["urn:envhub:audit:v1"] = Field(
        validation_alias="predicateType", serialization_alias="predicateType"
    )
    predicate: AuditPredicate

    @classmethod
    def about(cls, release: Release, digest: str, predicate: AuditPredicate) -> "AuditStatement":
        """The statement of `predicate` about the bundle with this digest (`sha256:…`)."""
        subject = StatementSubject(name=str(release), digest=SubjectDigest(sha256=digest.removeprefix("sha256:")))
        return cls.model_validate(
            {"_type": STATEMENT_TYPE, "subject": (subject,), "predicateType": AUDIT_TYPE, "predicate": predicate}
        )

    @property
    def release(self) -> Release:
        """The package and version that were audited."""
        return Release.parse(self.subject[0].name)

    @property
    def digest(self) -> str:
        """Digest of the bundle that was audited: `sha256:…`."""
        return f"sha256:{self.subject[0].digest.sha256}"
