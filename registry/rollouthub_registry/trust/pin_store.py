"""`trust.json`: a user's pinned keys and seen releases, changed by one process at a time."""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from rollouthub.errors import UsageError
from rollouthub.store.atomic_files import replace_file
from rollouthub_registry.bundle.attestation import Envelope, Statement
from rollouthub_registry.names import NameRefused, PackageName, Release, Version, parse_namespace
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signatures import open_envelope, verify
from rollouthub_registry.user_file import locked_file

FILE_NAME = "trust.json"
LOCK_SECONDS = 30
"""Most seconds to wait for another process, which holds the store for milliseconds."""

_KEY_ID = re.compile(r"[0-9a-f]{64}")


class TrustStoreError(UsageError):
    """The trust store cannot be read or written; nothing is trusted without it."""


class TrustStore:
    """The trust store in a folder; a missing file is an empty store, a damaged one makes every use fail."""

    def __init__(self, folder: Path) -> None:
        """Takes the hub's settings folder (`config_folder`); nothing is read yet."""
        self.file = folder / FILE_NAME

    def pins(self) -> Pins:
        """The present content of the store.

        Raises:
            TrustStoreError: the file is damaged or cannot be read.
        """
        try:
            pins = Pins.model_validate_json(self.file.read_bytes())
            for package, versions in (*pins.seen.items(), *pins.unwalled.items()):
                PackageName.parse(package)
                for version in versions:
                    Version.parse(version)
        except FileNotFoundError:
            return Pins()
        except OSError as error:
            raise TrustStoreError(f"{self.file} cannot be read: {error.strerror or error}") from error
        except (ValidationError, NameRefused) as error:
            raise TrustStoreError(
                f"{self.file} is damaged or written by a newer hub; restore it, or move it away to pin every key anew"
            ) from error
        return pins

    def admit(self, envelope: Envelope, digest: str, release: Release, *, is_exact: bool = False) -> Statement:
        """Verify an envelope (see `verify`) and record its release; pins the key of a namespace that has none.

        Raises:
            TrustRefused: it does not verify; nothing was written.
            TrustStoreError: the store cannot be read or written.
        """
        with self._changing() as pins:
            statement = verify(envelope, digest, release, pins, is_exact=is_exact)
            changed = pins.with_release(release, digest, open_envelope(envelope).key.id)
            if changed != pins:
                self._write(changed)
            return statement

    def trust(self, namespace: str, key_ids: tuple[str, ...]) -> tuple[str, ...]:
        """Pin a namespace to exactly these keys; returns the keys pinned before.

        Raises:
            UsageError: the namespace or a key's id is invalid, or the store cannot be changed.
        """
        parse_namespace(namespace)
        for key_id in key_ids:
            if not _KEY_ID.fullmatch(key_id):
                raise UsageError(f"{key_id!r} is no id of a key; it is 64 of 0-9 and a-f, as the refusal showed it")
        with self._changing() as pins:
            self._write(pins.with_keys(namespace, key_ids))
            return pins.namespaces.get(namespace, ())

    def unwall(self, package: PackageName, digests: Mapping[str, str]) -> None:
        """Remember that these versions of a package, by digest, need no wall, beside those remembered before.

        Raises:
            TrustStoreError: the store cannot be changed.
        """
        with self._changing() as pins:
            self._write(pins.with_unwalled(str(package), {**pins.unwalled.get(str(package), {}), **digests}))

    def wall(self, package: PackageName, version: str | None = None) -> tuple[str, ...]:
        """Forget that a version of a package, or every one, needs no wall; returns the versions that are forgotten.

        Raises:
            TrustStoreError: the store cannot be changed.
        """
        with self._changing() as pins:
            known = pins.unwalled.get(str(package), {})
            forgotten = tuple(each for each in known if version in (None, each))
            kept = {each: digest for each, digest in known.items() if each not in forgotten}
            self._write(pins.with_unwalled(str(package), kept))
            return forgotten

    @contextmanager
    def _changing(self) -> Generator[Pins]:
        with locked_file(self.file, TrustStoreError, LOCK_SECONDS):
            yield self.pins()

    def _write(self, pins: Pins) -> None:
        left_out = set[str]() if pins.unwalled else {"unwalled"}  # an older hub does not know it
        written = pins.model_dump_json(indent=2, exclude=left_out).encode()
        replace_file(self.file, written, is_private=True, is_durable=True)
