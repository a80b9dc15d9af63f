"""Ed25519 keys: created when needed, stored in files that only their owner can read, and never shown."""

import base64
import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from rollouthub.errors import CredentialError
from rollouthub_registry.user_file import read_private

_NAME = re.compile(r"[a-z0-9](?:[-_.]?[a-z0-9]){0,59}")


class PublicKey:
    """The public half of a key, which verifies signatures."""

    def __init__(self, raw: bytes) -> None:
        """Takes the 32 raw bytes of a key.

        Raises:
            ValueError: they are not a valid key.
        """
        self._key = Ed25519PublicKey.from_public_bytes(raw)
        self.raw = raw

    @property
    def id(self) -> str:
        """SHA-256 of the raw key in hexadecimal."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def text(self) -> str:
        """The raw key in base64."""
        return base64.b64encode(self.raw).decode()

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether this key made the signature of this message."""
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


class Key:
    """A private key, which signs; its text representation shows only its id."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = PublicKey(private.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> "Key":
        """A new random key."""
        return cls(Ed25519PrivateKey.generate())

    @property
    def id(self) -> str:
        """The id of its public key."""
        return self.public.id

    def sign(self, message: bytes) -> bytes:
        """The signature of a message, 64 bytes."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"Key(id={self.id!r})"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled; read it from its file")

    def pem(self) -> bytes:
        """The private key in the format of its file."""
        return self._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def config_folder(environment: Mapping[str, str]) -> Path:
    """The hub's settings folder of a user; `environment` is the process's."""
    given = environment.get("XDG_CONFIG_HOME") or ""
    home = Path(environment.get("HOME") or Path.home())
    return (Path(given) if given.startswith("/") else home / ".config") / "rollouthub"


def load_key(folder: Path, name: str = "default") -> Key:
    """Read the key `NAME.pem` in a folder, creating it if it does not exist.

    Raises:
        CredentialError: the file can be read by others, is no Ed25519 key, or can be neither read nor created.
    """
    if not _NAME.fullmatch(name):
        raise CredentialError(f"a key cannot be named {name!r}; use a-z, 0-9, and single `-`, `_` or `.` between them")
    file = folder / f"{name}.pem"
    try:
        if not os.path.lexists(file):
            _write_new(folder, file)
        return Key(_read(file))
    except OSError as error:
        raise CredentialError(f"the key {file} can be neither read nor made: {error.strerror or error}") from error


def _read(file: Path) -> Ed25519PrivateKey:
    content = read_private(file, 10_000, "make a new key")
    try:
        private = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError):
        # Without the cause, whose text may hold what the file holds.
        raise CredentialError(f"{file} holds no key without password; move it away to have a new one made") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise CredentialError(f"the key {file} is not an Ed25519 key; move it away to have a new one made")
    return private


def _write_new(folder: Path, file: Path) -> None:
    """Create a key file atomically; if two processes do so at once, the first one's key is kept."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = folder / f".{file.name}.{secrets.token_hex(8)}"
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as sink:
            sink.write(Key.generate().pem())
            sink.flush()
            os.fsync(sink.fileno())
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(beside)
    finally:
        beside.unlink(missing_ok=True)
