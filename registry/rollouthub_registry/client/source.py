"""Where packages come from: one protocol for a server, a file server and a folder."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from rollouthub.errors import ConfigError
from rollouthub_registry.bundle.attestation import Envelope
from rollouthub_registry.client.address import check_carries_token, folder_of, registry_url
from rollouthub_registry.client.client_error import Missing
from rollouthub_registry.client.http_client import PATIENCE, Patience, exchanging
from rollouthub_registry.client.marker import SIGN, SIGN_BYTES, has_api
from rollouthub_registry.client.offer import Fetched, Hit, Offer, Progress
from rollouthub_registry.client.served_registry import Served
from rollouthub_registry.client.static_registry import Files, Folder, FolderReader
from rollouthub_registry.names import PackageName, Release


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


@asynccontextmanager
async def open_source(url: str, token: str | None = None, patience: Patience = PATIENCE) -> AsyncGenerator[Source]:
    """Open the registry at a URL; `token` is for this one, and sent with what changes something there.

    Raises:
        ConfigError: the URL is none of a registry.
        CredentialError: the token would travel unencrypted.
        RegistryFault: it cannot be reached.
    """
    url = registry_url(url)
    if (folder := folder_of(url)) is not None:
        await _check_folder(url, folder)
        yield Folder(url, folder)
        return
    if token is not None:
        check_carries_token(url)
    async with exchanging(url, patience) as exchange:
        try:
            sign = await exchange.read(SIGN, SIGN_BYTES)
        except Missing:
            raise ConfigError(f"there is no registry at {url}: it has no registry.json; {_check(url)}") from None
        yield Served(url, exchange, token) if has_api(url, sign) else Files(url, exchange)


def _check(url: str) -> str:
    path = urlsplit(url).path
    return f"check the URL, or leave out {path} if it is {url.removesuffix(path)}" if path else "check the URL"


async def _check_folder(url: str, folder: Path) -> None:
    """See that a folder holds no registry of a later form; one without any may become one."""
    with suppress(Missing):
        has_api(url, await FolderReader(folder).read(SIGN, SIGN_BYTES))
