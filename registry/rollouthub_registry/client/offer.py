"""`Offer`: one version of a package as a registry describes it, not yet verified."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from rollouthub.frozen import Frozen
from rollouthub_registry.bundle.attestation import Baseline, Digest, Envelope
from rollouthub_registry.names import Release

Progress = Callable[[int, int | None], None]
"""Told how many bytes came or went, and of how many where that is known."""

_Text = Annotated[str, Field(max_length=10_000)]
_Words = Annotated[tuple[_Text, ...], Field(max_length=1000)]


class Offer(Frozen):
    """One version of a package; text in it is the registry's and the publisher's, and not to be printed as it is."""

    release: Release
    digest: Digest
    """Of the bundle."""
    size: int = Field(ge=0)
    """Of the bundle, in bytes."""
    key_id: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the key that signed it, says the registry."""
    yanked: _Text | None
    """Why it is not to be used any more; None where it is."""
    checks_passed: bool
    """Whether `hub check` passed before it was published."""
    description: _Text
    published_at: _Text
    """RFC 3339."""
    contract: int
    """The version of the environment contract it is written for."""
    licence: _Text | None = None
    """An SPDX expression."""
    tags: _Words = ()
    splits: _Words = ()
    baselines: tuple[Baseline, ...] = Field(default=(), max_length=1000)
    """The strongest first."""
    difficulty: float | None = None
    """One less the mean reward of the strongest baseline; None without one."""
    downloads: int = 0
    """Of all versions; 0 where nobody counts."""


class Hit(Frozen):
    """What a search found."""

    source: str
    """The registry that offers it."""
    offer: Offer


@dataclass(frozen=True)
class Fetched:
    """What was brought from a registry; not verified yet."""

    bundle: Path
    envelope: Envelope
    raw: bytes
    """The envelope as it came."""
