"""Reads single files of a bundle that was validated at upload, such as its `env.toml`, without reading the rest."""

from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub_registry.bundle.encoding import BLOCK, GZIP_HEADER, STORED, padding, stored_header
from rollouthub_registry.bundle.limits import MANIFEST_BYTES
from rollouthub_registry.server.server_error import RegistryRequestRefused

_NAME, _SIZE, _PREFIX = slice(0, 100), slice(124, 135), slice(345, 500)
"""In a tar header: where the last part of the path, the size, and the folders before it are."""
_BEFORE_A_BLOCK = len(stored_header(STORED, is_last=False))


def env_toml(bundle: Path) -> bytes:
    """The bytes of `env.toml`, found through the tar headers alone, since nothing in a bundle is compressed.

    Raises:
        RegistryRequestRefused: the bundle has no env.toml, or is damaged.
    """
    found = bundle_files(bundle, (FILE_NAME,), MANIFEST_BYTES).get(FILE_NAME)
    if found is None or found[1] > MANIFEST_BYTES:
        raise RegistryRequestRefused(422, f"{bundle} holds no {FILE_NAME} where a bundle's is")
    return found[0]


def bundle_files(bundle: Path, wanted: Collection[str], most: int) -> dict[str, tuple[bytes, int]]:
    """The first `most` bytes of these files of a bundle, and their whole sizes; those that it does not hold are left
    out.

    Raises:
        OSError: the bundle cannot be read.
    """
    found: dict[str, tuple[bytes, int]] = {}
    with bundle.open("rb") as source:
        at = 0
        while len(found) < len(wanted) and (block := _read(source, at, BLOCK)) not in (bytes(BLOCK), b""):
            try:
                size = int(block[_SIZE], 8)
            except ValueError:
                break
            at += BLOCK
            name, prefix = (block[part].split(b"\0", 1)[0] for part in (_NAME, _PREFIX))
            path = (prefix + b"/" + name if prefix else name).decode(errors="replace")
            if path in wanted:
                found[path] = (_read(source, at, min(size, most)), size)
            at += size + padding(size)
    return found


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
