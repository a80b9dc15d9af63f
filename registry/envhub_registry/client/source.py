"""Where packages come from: one protocol for a server, a file server and a folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from envhub_registry.bundle.facts import Envelope
from envhub_registry.client.offer import Fetched, Hit, Offer
from envhub_registry.names import PackageName, Release

Progress = Callable[[int, int | None], None]
"""Told how many bytes came, and of how many where that is known."""


class Source(Protocol):
    """One registry. What it says is not verified."""

    @property
    def url(self) -> str:
        """Where it is, as locks and records name it."""
        ...

    async def offers(self, package: PackageName) -> list[Offer]:
        """All versions of a package, the highest first, with those that are yanked.

        Raises:
            NotPublished: it has none.
            RegistryFault: it cannot be asked.
        """
        ...

    async def statement(self, release: Release) -> tuple[Envelope, bytes]:
        """What a version's publisher signed, and the bytes of it as they came.

        Raises:
            NotPublished: it has no such version.
            RegistryFault: it cannot be asked.
        """
        ...

    async def fetch(self, release: Release, folder: Path, progress: Progress | None = None) -> Fetched:
        """Bring a version into a folder.

        Raises:
            NotPublished: it has no such version.
            RegistryFault: it cannot be asked, or what it sends does not end.
        """
        ...

    async def search(self, words: str, limit: int = 20, sort: str | None = None, tag: str | None = None) -> list[Hit]:
        """Find environments, each with its latest version.

        Raises:
            RegistryFault: it cannot be asked.
        """
        ...

    async def publish(self, bundle: Path, envelope: bytes, progress: Progress | None = None) -> str:
        """Publish a bundle with its statement; where it can be seen then.

        Raises:
            TokenRefused: it wants a token, or another one.
            RegistryRefused: it does not take it.
            RegistryFault: it cannot be asked.
        """
        ...

    async def yank(self, release: Release, reason: str) -> None:
        """Mark a version as not to be used any more.

        Raises:
            NotPublished: it has no such version.
            TokenRefused: it wants a token, or another one.
            RegistryFault: it cannot be asked.
        """
        ...
