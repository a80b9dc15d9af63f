"""Reads the `env.toml` of a bundle that was validated at upload, without reading the rest of the bundle."""

from pathlib import Path
from typing import BinaryIO

from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub_registry.bundle.encoding import BLOCK, GZIP_HEADER, STORED, padding, stored_header
from rollouthub_registry.bundle.limits import MANIFEST_BYTES
from rollouthub_registry.server.server_error import RegistryRequestRefused

_NAME, _SIZE, _PREFIX = FILE_NAME.encode() + b"\0", slice(124, 135), 345
"""In a tar header: how the one of env.toml begins, where the size is, and the type of a folder."""
_BEFORE_A_BLOCK = len(stored_header(STORED, is_last=False))


def env_toml(bundle: Path) -> bytes:
    """The bytes of `env.toml`, found through the tar headers alone, since nothing in a bundle is compressed.

    Raises:
        RegistryRequestRefused: the bundle has no env.toml, or is damaged.
    """
    with bundle.open("rb") as source:
        at = 0
        while (block := _read(source, at, BLOCK)) not in (bytes(BLOCK), b""):
            try:
                size = int(block[_SIZE], 8)
            except ValueError:
                break
            at += BLOCK
            if block.startswith(_NAME) and not block[_PREFIX] and size <= MANIFEST_BYTES:
                return _read(source, at, size)
            at += size + padding(size)
    raise RegistryRequestRefused(422, f"{bundle} holds no {FILE_NAME} where a bundle's is")


def _read(source: BinaryIO, at: int, size: int) -> bytes:
    """Bytes of the tar archive, read from the stored blocks that contain them."""
    parts: list[bytes] = []
    while size > 0:
        number, offset = divmod(at, STORED)
        source.seek(len(GZIP_HEADER) + number * (_BEFORE_A_BLOCK + STORED) + _BEFORE_A_BLOCK + offset)
        part = source.read(min(size, STORED - offset))
        if not part:
            break
        parts.append(part)
        at, size = at + len(part), size - len(part)
    return b"".join(parts)
