"""`Source`: the protocol of a registry, whether a server, plain files on a web server, or a folder."""

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
    """One registry. Its answers are not verified."""

    @property
    def url(self) -> str:
        """URL of the registry, as locks and records name it."""
        ...

    async def offers(self, package: PackageName) -> list[Offer]:
        """All versions of a package, the highest first, yanked ones included.

        Raises:
            NotPublished: there are none.
            RegistryFault: the registry did not answer.
        """
        ...

    async def statement(self, release: Release) -> tuple[Envelope, bytes]:
        """What a version's publisher signed, and the bytes of its envelope.

        Raises:
            NotPublished: there is no such version.
            RegistryFault: the registry did not answer.
        """
        ...

    async def audit(self, release: Release) -> bytes | None:
        """The envelope of an audit by who keeps the registry; None if there is none.

        Raises:
            RegistryFault: the registry did not answer.
        """
        ...

    async def fetch(self, release: Release, folder: Path, progress: Progress | None = None) -> Fetched:
        """Download a version into a folder.

        Raises:
            NotPublished: there is no such version.
            RegistryFault: the registry did not answer, or the download failed.
        """
        ...

    async def search(self, words: str, limit: int = 20, sort: str | None = None, tag: str | None = None) -> list[Hit]:
        """Find environments, each with its latest version.

        Raises:
            RegistryFault: the registry did not answer.
        """
        ...

    async def publish(self, bundle: Path, envelope: bytes, progress: Progress | None = None) -> str:
        """Publish a bundle with its statement; returns the URL of its page.

        Raises:
            TokenRefused: a token is missing, or does not permit it.
            RegistryRefused: the registry refuses the bundle.
            RegistryFault: the registry did not answer.
        """
        ...

    async def yank(self, release: Release, reason: str) -> None:
        """Mark a version as no longer to be used.

        Raises:
            NotPublished: there is no such version.
            TokenRefused: a token is missing, or does not permit it.
            RegistryFault: the registry did not answer.
        """
        ...


@asynccontextmanager
async def open_source(url: str, token: str | None = None, patience: Patience = PATIENCE) -> AsyncGenerator[Source]:
    """Open the registry at a URL; `token` is sent only there, and only with requests that change something.

    Raises:
        ConfigError: there is no registry at the URL.
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
    """Check that a folder is not a registry of a newer format; a folder without a registry may become one."""
    with suppress(Missing):
        has_api(url, await FolderReader(folder).read(SIGN, SIGN_BYTES))
