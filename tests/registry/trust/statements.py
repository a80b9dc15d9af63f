"""Statements and stores for the tests of trust."""

from datetime import UTC, datetime
from typing import Any

from rollouthub_registry.bundle.attestation import CheckSummary, Envelope, Predicate, Statement
from rollouthub_registry.names import Release
from rollouthub_registry.trust.keys import Key
from rollouthub_registry.trust.signatures import sign

WORDS = Release.parse("acme/words@1.2.0")
DIGEST = "sha256:" + "a" * 64
OTHER_DIGEST = "sha256:" + "b" * 64
KEY = Key.generate()
STRANGER = Key.generate()


def statement(release: Release = WORDS, digest: str = DIGEST, **changes: Any) -> Statement:
    """A statement about a release; `changes` are parts of its predicate."""
    parts: dict[str, Any] = {
        "manifest": {"name": str(release.package), "version": str(release.version)},
        "tools_digest": None,
        "check": CheckSummary(passed=True),
        "created_at": datetime(2030, 1, 1, tzinfo=UTC),
        "hub_version": "0.1.0",
        "contract": 1,
    }
    return Statement.about(release, digest, Predicate(**{**parts, **changes}))


def envelope(version: str = "1.2.0", digest: str = DIGEST, key: Key = KEY, package: str = "acme/words") -> Envelope:
    """A signed statement."""
    return sign(statement(Release.parse(f"{package}@{version}"), digest), key)
