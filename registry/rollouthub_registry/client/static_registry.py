"""A registry as plain files, in a local folder or on any web server."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from anyio import to_thread

from rollouthub.errors import ConfigError, StoreError
from rollouthub_registry.bundle.attestation import Envelope
from rollouthub_registry.client.client_error import Missing, NotPublished, RegistryFault, RegistryRefused
from rollouthub_registry.client.offer import Fetched, Hit, Offer, Progress
from rollouthub_registry.client.release_reader import OfferedRelease, Reader
from rollouthub_registry.client.static_search import best_hits
from rollouthub_registry.client.version_list import last_lines, latest_of, offers_of
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.server.registry import Registry, open_registry
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.version_listing import Listing

VERSIONS_BYTES = 64 * 2**20
CATALOG_BYTES = 256 * 2**20
_CHUNK = 2**20

Result = TypeVar("Result")
Said = Sequence[Mapping[str, Any]]


class Files:
    """A registry read as plain files, without a server's API."""

    def __init__(self, url: str, reader: Reader) -> None:
        self.url, self._reader = url, reader

    async def offers(self, package: PackageName) -> list[Offer]:
        """See `Source`."""
        path = f"/packages/{package}/versions.jsonl"
        try:
            content = await self._reader.read(path, VERSIONS_BYTES)
        except Missing:
            raise NotPublished(f"{package} is not published at {self.url}") from None
        found = await self._read(path, content, lambda said: offers_of(package, said))
        if not found:
            raise NotPublished(f"{package} is not published at {self.url}")
        return found

    async def statement(self, release: Release) -> tuple[Envelope, bytes]:
        """See `Source`."""
        return await self._published(release).read_statement(self._reader)

    async def audit(self, release: Release) -> bytes | None:
        """See `Source`."""
        return await self._published(release).read_audit(self._reader)

    async def fetch(self, release: Release, folder: Path, progress: Progress | None = None) -> Fetched:
        """See `Source`."""
        return await self._published(release).fetch(self._reader, folder, progress)

    async def search(self, words: str, limit: int = 20, sort: str | None = None, tag: str | None = None) -> list[Hit]:
        """See `Source`."""
        path = "/catalog.jsonl"
        try:
            content = await self._reader.read(path, CATALOG_BYTES)
        except Missing:
            return []

        def chosen(said: Said) -> list[Hit]:
            return best_hits(self.url, latest_of(said), words, limit, sort, tag)

        return await self._read(path, content, chosen)

    async def publish(self, bundle: Path, envelope: bytes, progress: Progress | None = None) -> str:
        """Refuse: a web server's files cannot be changed through it."""
        raise self._read_only()

    async def yank(self, release: Release, reason: str) -> None:
        """Refuse: only its owner can change a registry of plain files."""
        raise self._read_only()

    def _read_only(self) -> RegistryRefused:
        return RegistryRefused(
            f"{self.url} shows the files of a registry and takes none: publish into its folder with "
            "--registry file:///FOLDER, or serve it with `hub serve registry`"
        )

    def _published(self, release: Release) -> OfferedRelease:
        folder = f"/packages/{release.package}/{release.version}"
        return OfferedRelease(
            release, self.url, f"{folder}/bundle.envhub", f"{folder}/statement.dsse.json", f"{folder}/audit.dsse.json"
        )

    async def _read(self, path: str, content: bytes, use: Callable[[Said], Result]) -> Result:
        try:
            return await to_thread.run_sync(lambda: use(last_lines(content)))
        except ValueError as error:
            raise RegistryFault(f"the registry {self.url} is damaged: {path}: {error}") from None


class Folder(Files):
    """A registry in a folder of this machine; reading it needs no permission to write."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, FolderReader(folder))
        self._folder = folder

    async def publish(self, bundle: Path, envelope: bytes, progress: Progress | None = None) -> str:
        """Publish into the folder, which becomes a registry if it is none."""

        def published(registry: Registry) -> Listing:
            return registry.publish(bundle, envelope)

        listing = await to_thread.run_sync(self._do, published)
        return f"{self.url}/packages/{listing.release.package}/{listing.release.version}"

    async def yank(self, release: Release, reason: str) -> None:
        """Mark a version in the folder as no longer to be used."""
        if not self._folder.is_dir():
            raise NotPublished(f"{release} is not published at {self.url}")

        def yanked(registry: Registry) -> Listing:
            return registry.yank(release, reason)

        await to_thread.run_sync(self._do, yanked)

    async def note_audit(self, release: Release, envelope: bytes) -> None:
        """Keep a signed audit beside a version."""

        def noted(registry: Registry) -> Listing:
            return registry.note_audit(release, envelope)

        await to_thread.run_sync(self._do, noted)

    def _do(self, what: Callable[[Registry], Result]) -> Result:
        try:
            with open_registry(self._folder) as registry:
                return what(registry)
        except RegistryRequestRefused as error:
            if error.status == 404:
                raise NotPublished(f"{error} ({self.url})") from error
            raise RegistryRefused(f"the registry {self.url} refuses it: {error}", error.status) from error
        except StoreError as error:
            raise RegistryFault(f"the registry {self.url} cannot do it: {error}") from error


class FolderReader:
    """Reads the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, path: str, most_bytes: int) -> bytes:
        """See `Reader`."""
        content = bytearray()

        def take(chunk: bytes, _: int) -> None:
            content.extend(chunk)

        await to_thread.run_sync(self._each, path, most_bytes, take)
        return bytes(content)

    async def copy(self, path: str, target: Path, most_bytes: int, progress: Progress | None = None) -> None:
        """See `Reader`."""

        def copied() -> None:
            with target.open("xb") as file:

                def take(chunk: bytes, whole: int) -> None:
                    file.write(chunk)
                    if progress is not None:
                        progress(file.tell(), whole)

                try:
                    self._each(path, most_bytes, take)
                except BaseException:
                    target.unlink()
                    raise

        await to_thread.run_sync(copied)

    def _lacking(self) -> str:
        if not self._folder.is_dir():
            return "there is no such folder; check the path"
        if (self._folder / "packages").is_dir():
            return f"it has no registry.json; an older hub's gets one by `hub registry rebuild {self._folder}`"
        return "it has no registry.json; check the path"

    def _each(self, path: str, most_bytes: int, take: Callable[[bytes, int], object]) -> None:
        file = self._folder / path.removeprefix("/")
        try:
            # Without waiting for who writes: a pipe in the place of a file must not hold us.
            descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            with os.fdopen(descriptor, "rb") as source:
                status = os.fstat(source.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise RegistryFault(f"{file} is no plain file")
                received = 0
                while chunk := source.read(_CHUNK):
                    received += len(chunk)
                    if received > most_bytes:
                        raise RegistryFault(f"{file} has more than {most_bytes:,} bytes, which nothing there has")
                    take(chunk, status.st_size)
        except (FileNotFoundError, NotADirectoryError):
            if path != "/registry.json" and not (self._folder / "registry.json").exists():
                raise ConfigError(f"there is no registry in {self._folder}: {self._lacking()}") from None
            raise Missing(f"there is no {file}") from None
        except OSError as error:
            raise RegistryFault(f"{file} cannot be read: {error.strerror or error}") from error
