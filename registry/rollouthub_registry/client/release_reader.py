"""`Reader`: reads a registry's documents; and `OfferedRelease`: a release made of two of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rollouthub_registry.bundle.attestation import Envelope
from rollouthub_registry.bundle.limits import ARCHIVE_BYTES
from rollouthub_registry.client.client_error import Missing, NotPublished
from rollouthub_registry.client.offer import Fetched, Progress
from rollouthub_registry.names import Release
from rollouthub_registry.trust.signatures import parse_envelope

STATEMENT_BYTES = 8 * 2**20
AUDIT_BYTES = 2**20


class Reader(Protocol):
    """Reads the documents of one registry."""

    async def read(self, path: str, most_bytes: int) -> bytes:
        """The content of a document.

        Raises:
            Missing: there is no such document.
            RegistryFault: the document cannot be read.
        """
        ...

    async def copy(self, path: str, target: Path, most_bytes: int, progress: Progress | None = None) -> None:
        """Copy a document to a new file.

        Raises:
            Missing: there is no such document.
            RegistryFault: the document cannot be read.
        """
        ...


@dataclass(frozen=True)
class OfferedRelease:
    """One release in a registry, and the addresses of its bundle and statement."""

    release: Release
    url: str
    """URL of the registry."""
    bundle: str
    statement: str
    audit: str

    async def read_audit(self, reader: Reader) -> bytes | None:
        """The envelope of an audit by who keeps the registry, not verified; None if there is none."""
        try:
            return await reader.read(self.audit, AUDIT_BYTES)
        except Missing:
            return None

    async def read_statement(self, reader: Reader) -> tuple[Envelope, bytes]:
        """The statement and the bytes of its envelope, not verified.

        Raises:
            NotPublished: there is no statement.
            SignatureRefused: it is not a statement in the hub's format.
        """
        try:
            raw = await reader.read(self.statement, STATEMENT_BYTES)
        except Missing:
            raise NotPublished(f"{self.release} is not published at {self.url}") from None
        return parse_envelope(raw), raw

    async def fetch(self, reader: Reader, folder: Path, progress: Progress | None = None) -> Fetched:
        """Download the bundle and the statement into a folder, without verifying them.

        Raises:
            NotPublished: one of them does not exist.
            SignatureRefused: the statement is not in the hub's format.
        """
        envelope, raw = await self.read_statement(reader)
        bundle = folder / self.release.file_name
        try:
            await reader.copy(self.bundle, bundle, ARCHIVE_BYTES, progress)
        except Missing:
            raise NotPublished(f"the bundle of {self.release} is not at {self.url}") from None
        return Fetched(bundle, envelope, raw)
