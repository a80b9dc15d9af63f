"""A registry in a directory: publish, yank, look up, search. Its HTTP server uses the same functions."""

import logging
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from rollouthub.errors import StoreError, UsageError
from rollouthub.values import Frozen
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.server.atomic_write import locked, open_layout, place, receiving, secure, sweep, write_whole
from rollouthub_registry.server.directory_layout import AUDIT, BUNDLE, STATEMENT, YANKED, Layout
from rollouthub_registry.server.index import Index
from rollouthub_registry.server.owners import (
    assign,
    refuse_lookalike_namespace,
    refuse_lookalike_package,
    refuse_stranger,
)
from rollouthub_registry.server.publication_log import Journal
from rollouthub_registry.server.search import Found, Query, search
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.upload_check import Examined, examine, read_statement
from rollouthub_registry.server.version_listing import Listing, audit_facts
from rollouthub_registry.trust.signed_audits import open_audit
from rollouthub_registry.trust.trust_error import SignatureRefused

logger = logging.getLogger(__name__)

_AT_A_TIME = 500
AUDIT_BYTES = 2**20
LONGEST_REASON = 500


class Yank(Frozen):
    """The content of `yanked.json`."""

    reason: str = Field(max_length=LONGEST_REASON)
    yanked_at: datetime


class Registry:
    """The directory of a registry with its index open; several threads and processes may use it at once."""

    def __init__(self, layout: Layout, index: Index) -> None:
        self.layout, self.index = layout, index
        self._journal = Journal(layout)

    def publish(self, bundle: Path, envelope: bytes) -> Listing:
        """Publish a bundle with its signed statement, directly in the directory.

        Raises:
            RegistryRequestRefused: they are invalid, or the version, the key or the name is not allowed.
            StoreError: writing failed.
        """
        with receiving(self.layout) as folder:
            shutil.copyfile(bundle, folder / BUNDLE)
            (folder / STATEMENT).write_bytes(envelope)
            return self.accept(folder)

    def accept(self, folder: Path, permit: Callable[[Release], None] = lambda _: None) -> Listing:
        """Publish the files received in a folder; `permit` may refuse once the release is known.

        Files that are published already, byte for byte, are accepted again: the earlier answer may have been lost.

        Raises:
            RegistryRequestRefused: see `publish`.
            StoreError: writing failed.
        """
        examined = examine(folder / BUNDLE, folder / STATEMENT)
        release = examined.release
        permit(release)
        secure(folder)
        with locked(self.layout):
            is_first = refuse_stranger(self.layout, release.package.namespace, examined.key_id)
            if self._is_the_same(folder, release):
                return self._take_in(release)
            if is_first:
                refuse_lookalike_namespace(self.layout, release.package.namespace)
            refuse_lookalike_package(self.layout, release.package)
            if is_first:
                assign(self.layout, release.package.namespace, (examined.key_id,))
            published_at = place(self.layout, folder, release)
            return self._tell(_listing(examined, published_at))

    def yank(self, release: Release, reason: str) -> Listing:
        """Mark a version as no longer to be used; its files stay for projects whose lock names it.

        Raises:
            RegistryRequestRefused: there is no such version.
            StoreError: writing failed.
        """
        with locked(self.layout):
            if not self.layout.version(release).is_dir():
                raise RegistryRequestRefused(404, f"{release} is not published here")
            if not self.layout.yanked(release).exists():
                mark = Yank(reason=reason[:LONGEST_REASON], yanked_at=datetime.now(UTC))
                write_whole(self.layout.yanked(release), mark.model_dump_json() + "\n")
            return self._take_in(release)

    def note_audit(self, release: Release, envelope: bytes) -> Listing:
        """Keep a signed audit of a version beside it, in place of an earlier one.

        Raises:
            RegistryRequestRefused: there is no such version, or the audit is not one of its bundle.
            StoreError: writing failed.
        """
        with locked(self.layout):
            listing = self.get(release)
            try:
                open_audit(envelope, release, listing.facts.digest)
            except UsageError as error:
                raise RegistryRequestRefused(422, str(error)) from error
            write_whole(self.layout.audit(release), envelope.decode())
            return self._take_in(release)

    def get(self, release: Release) -> Listing:
        """One published version.

        Raises:
            RegistryRequestRefused: there is no such version.
        """
        found = self.index.find(release.package, str(release.version))
        if found is None:
            raise RegistryRequestRefused(404, f"{release} is not published here")
        return found

    def latest(self, package: PackageName) -> Listing:
        """The highest version of a package that is not yanked, or the highest if all are.

        Raises:
            RegistryRequestRefused: there is no such package.
        """
        found = self.index.find(package, "latest")
        if found is None:
            raise RegistryRequestRefused(404, f"{package} is not published here")
        return found

    def versions(self, package: PackageName) -> list[Listing]:
        """All versions of a package, the latest published first.

        Raises:
            RegistryRequestRefused: there is no such package.
        """
        if not (found := self.index.versions(package)):
            raise RegistryRequestRefused(404, f"{package} is not published here")
        return found

    def search(self, query: Query) -> Found:
        """Search environments by words and quality."""
        return search(self.index, query)

    def reconcile(self, *, anew: bool = False) -> int:
        """Update the index and the logs to the directory's content; damaged versions are left out.

        Returns the number of versions that were wrong in the index.
        """
        with locked(self.layout):
            if anew:
                self.index.clear()
            wrong = self._reconcile()
            if anew or not self._journal.agrees(self.index.standings()):
                self._journal.make_anew(self.index.all())
            return wrong

    def _reconcile(self) -> int:
        known, there = self.index.known(), set[Release]()
        wrong, some = 0, list[Listing]()
        for release in self.layout.releases():
            there.add(release)
            marks = (self.layout.yanked(release).exists(), self.layout.audit(release).exists())
            if known.get(release) != marks:
                wrong += 1
                try:
                    some.append(_read(self.layout, release))
                except StoreError as error:  # one damaged version must not take all the others down with it
                    logger.warning("%s; it is left out", error)
            if len(some) == _AT_A_TIME:
                self.index.add(some)
                some = []
        self.index.add(some)
        gone = [release for release in known if release not in there]
        self.index.drop(gone)
        return wrong + len(gone)

    def _take_in(self, release: Release) -> Listing:
        return self._tell(_read(self.layout, release))

    def _tell(self, listing: Listing) -> Listing:
        self.index.add([listing])
        told = self.get(listing.release)
        self._journal.note(told)
        return told

    def _is_the_same(self, folder: Path, release: Release) -> bool:
        try:
            same = self.layout.statement(release).read_bytes() == (folder / STATEMENT).read_bytes()
        except FileNotFoundError:
            return False
        return same  # and so is the bundle: the statement holds its digest


@contextmanager
def open_registry(root: Path) -> Generator[Registry]:
    """Open the registry in a directory, creating it if need be, and repair what a killed process left behind.

    Raises:
        ConfigError: the directory cannot be written.
        StoreError: its index cannot be opened.
    """
    with _opened(root) as registry:
        registry.reconcile()
        yield registry


def rebuild(root: Path) -> int:
    """Rebuild a registry's index from its directory; returns the number of versions. Download counts are kept.

    Raises:
        ConfigError: the directory cannot be written.
        StoreError: its index cannot be opened.
    """
    with _opened(root) as registry:
        registry.reconcile(anew=True)
        return len(registry.index.known())


@contextmanager
def _opened(root: Path) -> Generator[Registry]:
    layout = open_layout(root)
    sweep(layout)
    with locked(layout):
        index = Index(layout.index)
    try:
        yield Registry(layout, index)
    finally:
        index.close()


def _listing(examined: Examined, published_at: float, yank: Yank | None = None) -> Listing:
    return Listing(
        release=examined.release,
        facts=examined.facts,
        published_at=published_at,
        updated_at=published_at if yank is None else yank.yanked_at.timestamp(),
        yanked=None if yank is None else yank.reason,
    )


def _with_audit(examined: Examined, file: Path) -> Examined:
    """The version with the audit beside it, if there is one of its bundle."""
    if not file.exists():
        return examined
    content = file.read_bytes() if file.stat().st_size <= AUDIT_BYTES else b""
    try:
        signed = open_audit(content, examined.release, examined.facts.digest)
    except SignatureRefused as error:
        logger.warning("%s: %s; it is left out", file, error)
        return examined
    facts = replace(examined.facts, audit=audit_facts(signed.audit, signed.key_id) | {"is_of_registry": True})
    return replace(examined, facts=facts)


def _read(layout: Layout, release: Release) -> Listing:
    """A version as its folder describes it; not verified again, since it was at upload, and installing verifies it."""
    try:
        folder = layout.version(release)
        statement, mark = folder / STATEMENT, folder / YANKED
        published_at = statement.stat().st_mtime_ns // 1000 / 1e6
        yank = Yank.model_validate_json(mark.read_bytes()) if mark.exists() else None
        examined = read_statement(statement.read_bytes(), folder / BUNDLE)
        if examined.release != release:
            raise RegistryRequestRefused(422, f"its statement speaks of {examined.release}")
        return _listing(_with_audit(examined, folder / AUDIT), published_at, yank)
    except (OSError, ValueError, UsageError) as error:
        raise StoreError(f"{layout.version(release)} is not as it was published: {error}") from error
