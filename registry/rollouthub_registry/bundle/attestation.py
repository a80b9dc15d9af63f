"""What a publisher signs about a bundle: an in-toto statement (v1) in a DSSE envelope.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
https://github.com/secure-systems-lab/dsse/blob/master/envelope.md
"""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, ConfigDict, Field, JsonValue

from rollouthub.values import Frozen
from rollouthub_registry.names import Release

STATEMENT_TYPE: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Literal["urn:envhub:environment:v1"] = "urn:envhub:environment:v1"
PAYLOAD_TYPE: Literal["application/vnd.in-toto+json"] = "application/vnd.in-toto+json"

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
"""`sha256:` and 64 hexadecimal digits."""
_Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Baseline(Frozen):
    """The score of one model, measured before the package was published."""

    model: str = Field(min_length=1, max_length=200)
    """The model's name in the hub, such as `openai/gpt-5`."""
    mean_reward: float = Field(allow_inf_nan=False)
    """Mean reward over the scored samples."""
    samples: int = Field(ge=1, le=10**12)
    """Number of scored samples."""
    low: float | None = Field(default=None, allow_inf_nan=False)
    """Lower end of the mean's 95 % interval, over tasks; None where it was not stated, or there are too few tasks."""
    high: float | None = Field(default=None, allow_inf_nan=False)


class ShownTool(Frozen):
    """A tool as its publisher shows it to people; what an installation is held against is the digest of all tools."""

    name: str = Field(max_length=200)
    description: str = Field(default="", max_length=2000)
    input_schema: JsonValue = None
    """The JSON Schema of its arguments; None where it was too large to publish."""


class CheckSummary(Frozen):
    """The result of `hub check` before publishing."""

    passed: bool
    """Whether every check passed; a package may be published although it failed."""
    report: JsonValue = None
    """The report in the form that `hub publish` writes."""


class ClassResult(Frozen):
    """What was found of one class of defects."""

    defect: str = Field(pattern=r"^[A-Za-z0-9-]{1,40}$")
    """The class: a leak (`L1` …), or what makes scores wrong (`floor`, `flaky` …)."""
    state: Literal["held", "broke", "not_tried"]
    tried: int = Field(ge=0, le=10**9)
    """Number of checks, attacks, probes and cheats that were tried."""
    broke: int = Field(ge=0, le=10**9)
    """Number of those that found a defect."""


class AuditSummary(Frozen):
    """What attacks and an audit of some tasks found, by class."""

    at: AwareDatetime = Field(ge=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(9000, 1, 1, tzinfo=UTC))
    """When they ended."""
    tasks: int = Field(ge=0, le=10**12)
    """Number of tasks that were audited."""
    defective: int = Field(ge=0, le=10**12)
    """Number of those whose score cannot be trusted."""
    classes: tuple[ClassResult, ...] = Field(default=(), max_length=60)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return not self.defective and all(each.state != "broke" for each in self.classes)

    @property
    def broken(self) -> tuple[str, ...]:
        """The classes of which something was found."""
        return tuple(each.defect for each in self.classes if each.state == "broke")


def audit_words(audit: AuditSummary | None) -> str:
    """An audit in one line, for people."""
    if audit is None:
        return "not audited"
    tried = sum(each.state != "not_tried" for each in audit.classes)
    of = f"{tried} classes tried on {audit.tasks} tasks, {audit.at:%Y-%m-%d}"
    return f"nothing found in {of}" if audit.is_sound else f"found {', '.join(audit.broken)} in {of}"


class Predicate(Frozen):
    """What the publisher states about the bundle."""

    manifest: dict[str, JsonValue]
    """The whole `env.toml` of the bundle, as JSON."""
    tools_digest: Digest | None
    """Digest of the tool list (see `tool_list_digest`); None where the publisher did not start the environment."""
    tools: tuple[ShownTool, ...] = Field(default=(), max_length=200)
    """Its tools, for people to read; the first of them, where it has more."""
    check: CheckSummary
    audit: AuditSummary | None = None
    """What attacks and the audit of some tasks found; None where they were left out."""
    baselines: tuple[Baseline, ...] = Field(default=(), max_length=100)
    created_at: AwareDatetime = Field(ge=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(9000, 1, 1, tzinfo=UTC))
    """When the statement was signed."""
    hub_version: str = Field(min_length=1, max_length=60)
    """Version of the hub that published the bundle."""
    contract: int = Field(ge=0, le=10**6)
    """Version of the environment contract that the environment is written for."""


class SubjectDigest(Frozen):
    """The digest of a subject: SHA-256 in hexadecimal, without a prefix."""

    sha256: _Hex


class StatementSubject(Frozen):
    """The bundle that a statement is about."""

    name: str = Field(max_length=200)
    """`namespace/name@version`."""
    digest: SubjectDigest
    """Digest of the bundle's bytes."""


class Statement(Frozen):
    """The signed content: which bundle, and what its publisher states about it."""

    model_config = ConfigDict(serialize_by_alias=True)

    type: Literal["https://in-toto.io/Statement/v1"] = Field(validation_alias="_type", serialization_alias="_type")
    subject: tuple[StatementSubject, ...] = Field(min_length=1, max_length=1)
    predicate_type: Literal["urn:envhub:environment:v1"] = Field(
        validation_alias="predicateType", serialization_alias="predicateType"
    )
    predicate: Predicate

    @classmethod
    def about(cls, release: Release, digest: str, predicate: Predicate) -> "Statement":
        """The statement of `predicate` about the bundle with this digest (`sha256:…`)."""
        subject = StatementSubject(name=str(release), digest=SubjectDigest(sha256=digest.removeprefix("sha256:")))
        return cls.model_validate(
            {"_type": STATEMENT_TYPE, "subject": (subject,), "predicateType": PREDICATE_TYPE, "predicate": predicate}
        )

    @property
    def release(self) -> Release:
        """The package and version that the statement is about."""
        return Release.parse(self.subject[0].name)

    @property
    def digest(self) -> str:
        """Digest of the bundle that the statement is about: `sha256:…`."""
        return f"sha256:{self.subject[0].digest.sha256}"

    @property
    def created_at(self) -> datetime:
        """When the statement was signed."""
        return self.predicate.created_at


class Signature(Frozen):
    """One signature of an envelope."""

    model_config = ConfigDict(serialize_by_alias=True)

    keyid: _Hex
    """SHA-256 of the raw public key."""
    sig: str = Field(pattern=r"^[A-Za-z0-9+/]{86}==$")
    """The Ed25519 signature in standard base64."""
    public_key: str = Field(
        pattern=r"^[A-Za-z0-9+/]{43}=$", validation_alias="publicKey", serialization_alias="publicKey"
    )
    """The raw public key in base64, so that a first install can pin it; proves nothing unless the key is pinned."""


class Envelope(Frozen):
    """A DSSE envelope: the exact bytes that were signed, and the signature."""

    model_config = ConfigDict(serialize_by_alias=True)

    payload: str = Field(max_length=8_000_000)
    """The statement's JSON in standard base64."""
    payload_type: Literal["application/vnd.in-toto+json"] = Field(
        validation_alias="payloadType", serialization_alias="payloadType"
    )
    signatures: tuple[Signature, ...] = Field(min_length=1, max_length=1)
