"""Fetches a bundle from its source and verifies it; writes to a scratch folder only."""

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from anyio import to_thread

from rollouthub.errors import ConfigError, HubError
from rollouthub.text import one_line
from rollouthub_registry.bundle.bundle import build_bundle, open_bundle
from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.bundle.wheel_build import needs_wheel
from rollouthub_registry.client.client_error import NotPublished
from rollouthub_registry.client.name_suggestion import offers_or_nearest
from rollouthub_registry.client.offer import Offer
from rollouthub_registry.client.source import Source, open_source
from rollouthub_registry.client.version_ranges import VersionRequest
from rollouthub_registry.install_flow.argument import ArchiveArgument, FolderArgument, GitArgument
from rollouthub_registry.install_flow.git_repository import check_out
from rollouthub_registry.install_flow.progress import ProgressReport
from rollouthub_registry.install_flow.user_folders import UserFolders
from rollouthub_registry.install_flow.verified_bundle import Unsigned, VerifiedBundle, signed, unsigned
from rollouthub_registry.install_flow.version_selection import NotTaken, choose, failing
from rollouthub_registry.names import Release
from rollouthub_registry.trust.trust_error import SignatureRefused

STATEMENT_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Consent:
    """Which risks the user agreed to with options."""

    to_failing_checks: bool = False
    to_unsigned: bool = False
    to_build: bool = False
    """Agreement to run the build backend of a folder or a repository."""


@dataclass(frozen=True)
class Retrieval:
    """Fetches and verifies bundles for one command."""

    place: UserFolders
    scratch: Path
    consent: Consent
    telling: ProgressReport

    async def wanted(self, wanted: VersionRequest, source: Source) -> Offer:
        """Choose the version of a package to take from a registry.

        Raises:
            UsageError: no version is eligible.
            RegistryFault: the registry did not answer.
        """
        offers, pins = await offers_or_nearest(source, wanted.package), self.place.trust.pins()
        choice = choose(wanted, offers, source.url, pins, allow_failing=self.consent.to_failing_checks)
        for remark in choice.remarks:
            self.telling.warn(remark)
        return choice.offer

    async def offered(self, offer: Offer, source: Source) -> VerifiedBundle:
        """Fetch and verify the bundle of an offer.

        Raises:
            UsageError: the bundle is not the one offered, or is not trusted.
            RegistryFault: the registry did not answer.
        """
        brought = await self._fetched(offer.release, source)
        if brought.bundle.digest != offer.digest:
            raise SignatureRefused(
                f"{source.url} offered {offer.release} as {offer.digest}, and sent {brought.bundle.digest}; nothing "
                "of it is installed: try again, and if that does not help, tell who keeps the registry"
            )
        self._check_passed(brought)
        return brought

    async def locked(self, release: Release, url: str) -> VerifiedBundle:
        """Fetch and verify a release that a lock names; it may be yanked.

        Raises:
            UsageError: the release does not exist, or is not trusted.
            RegistryFault: the registry did not answer.
        """
        async with open_source(url) as source:
            offers = await source.offers(release.package)
            offer = next((offer for offer in offers if offer.release == release), None)
            if offer is None:
                raise NotPublished(f"{url} does not have {release} any more, which the lock names")
            if offer.yanked is not None:
                self.telling.warn(
                    f"{release} was yanked ({one_line(offer.yanked)}); it is installed because the lock names it"
                )
            return await self._fetched(release, source)

    async def folder(self, argument: FolderArgument) -> VerifiedBundle:
        """Build a bundle from the environment in a folder.

        Raises:
            BundleRefused: the folder cannot be bundled.
        """
        return await self._built(argument.folder, argument.source)

    async def repository(self, argument: GitArgument) -> VerifiedBundle:
        """Build a bundle from the environment in a Git repository.

        Raises:
            BundleRefused: the folder cannot be bundled.
            RepositoryFault: the repository cannot be fetched.
        """
        self.telling.note(f"fetching {argument.source}")
        folder = await check_out(argument, self._folder())
        return await self._built(folder, argument.source)

    async def archive(self, argument: ArchiveArgument) -> VerifiedBundle:
        """Verify a bundle file of this machine with the statement beside it.

        Raises:
            UsageError: the file is not a valid bundle, or is not trusted.
        """
        if not argument.file.exists():
            raise ConfigError(f"there is no archive {str(argument.file)!r}; name one that is on this machine")
        bundle = await to_thread.run_sync(open_bundle, argument.file)
        pins = self.place.trust.pins()
        try:
            with argument.statement.open("rb") as file:
                raw = file.read(STATEMENT_BYTES + 1)
        except FileNotFoundError:
            if not self.consent.to_unsigned:
                raise Unsigned(
                    f"{argument.file} has no statement beside it ({argument.statement.name}), so its publisher "
                    "is not known; to install it nevertheless, add --unsigned"
                ) from None
            return unsigned(bundle, argument.source, pins)
        except OSError as error:
            raise Unsigned(f"{argument.statement} cannot be read: {error.strerror or error}") from error
        if len(raw) > STATEMENT_BYTES:
            raise SignatureRefused(f"{argument.statement} is too long for a statement")
        brought = signed(bundle, bundle.release, argument.source, raw, pins)
        self._check_passed(brought)
        return brought

    async def _fetched(self, release: Release, source: Source) -> VerifiedBundle:
        folder = self._folder()
        try:
            with self.telling.bar(str(release)) as progress:
                fetched = await source.fetch(release, folder, progress)
        except OSError as error:
            raise HubError(
                f"the bundle of {release} cannot be written to {folder}: {error.strerror or error}; set TMPDIR to "
                "where there is room"
            ) from error
        try:
            bundle = await to_thread.run_sync(open_bundle, fetched.bundle)
        except BundleRefused as error:
            said = str(error).replace(str(fetched.bundle), f"the bundle of {release} from {source.url}")
            raise BundleRefused(said) from error
        return signed(bundle, release, source.url, fetched.raw, self.place.trust.pins())

    async def _built(self, folder: Path, source: str) -> VerifiedBundle:
        has_wheel = any((folder / "wheel").glob("*.whl"))
        if not has_wheel and needs_wheel(folder) and not self.consent.to_build:
            raise BundleRefused(
                f"{source} is a Python package whose wheel must be built, and that runs code of its build backend; "
                "if you trust it, add --build"
            )
        bundle = await to_thread.run_sync(partial(build_bundle, folder, self._folder()))
        return unsigned(bundle, source, self.place.trust.pins())

    def _check_passed(self, brought: VerifiedBundle) -> None:
        """Refuse a bundle whose signed statement says that its checks failed, unless the user consented."""
        if brought.origin.checks_passed is False and not self.consent.to_failing_checks:
            raise NotTaken(failing(str(brought.release)))

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.scratch))
