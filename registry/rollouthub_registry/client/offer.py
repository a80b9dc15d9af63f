"""`Offer`: one version of a package as a registry describes it, not yet verified."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from rollouthub.values import Frozen
from rollouthub_registry.bundle.attestation import Baseline, Digest, Envelope
from rollouthub_registry.names import Release

Progress = Callable[[int, int | None], None]
"""Called with the bytes transferred so far, and with the total if it is known."""

_Text = Annotated[str, Field(max_length=10_000)]
_Words = Annotated[tuple[_Text, ...], Field(max_length=1000)]


class OfferedAudit(Frozen):
    """What a registry says of a version's latest audit."""

    at: Annotated[str, Field(max_length=40)]
    sound: bool
    broken: Annotated[tuple[Annotated[str, Field(max_length=40)], ...], Field(max_length=60)] = ()
    """The classes of which something was found."""


class Offer(Frozen):
    """One version of a package; its texts come from the registry and the publisher, and must be cleaned before
    printing.
    """

    release: Release
    digest: Digest
    """Digest of the bundle."""
    size: int = Field(ge=0)
    """Size of the bundle in bytes."""
    key_id: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Id of the key that signed it, according to the registry."""
    yanked: _Text | None
    """Why it was yanked; None if it was not."""
    checks_passed: bool
    """Whether `hub check` passed before it was published."""
    description: _Text
    published_at: _Text
    """When it was published (RFC 3339)."""
    contract: int
    """Version of the environment contract that it is written for."""
    licence: _Text | None = None
    """Its licence, as an SPDX expression."""
    tags: _Words = ()
    splits: _Words = ()
    baselines: tuple[Baseline, ...] = Field(default=(), max_length=1000)
    """Scores of models, the best first."""
    difficulty: float | None = None
    """1 minus the mean reward of the best baseline; None without a baseline."""
    audit: OfferedAudit | None = None
    """The latest audit, according to the registry; None if there is none."""
    downloads: int = 0
    """Downloads of all versions; 0 if the registry does not count them."""


class Hit(Frozen):
    """One package that a search found."""

    source: str
    """The registry that offers it."""
    offer: Offer


@dataclass(frozen=True)
class Fetched:
    """A release downloaded from a registry, not yet verified."""

    bundle: Path
    envelope: Envelope
    raw: bytes
    """The bytes of the envelope as downloaded."""
