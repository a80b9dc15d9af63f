"""The `env.toml` of a folder or an archive, and which release it declares."""

import tempfile
from pathlib import Path

from envhub.errors import ConfigError
from envhub.manifest import FILE_NAME, Manifest, load_manifest
from envhub_registry.bundle.refusal import BundleRefused
from envhub_registry.names import NameRefused, Release


def read_manifest(file: Path) -> tuple[Manifest, Release]:
    """Read the manifest of a package and the release that it declares.

    Raises:
        ConfigError: the manifest does not hold.
        BundleRefused: its name or version is none that a package can have.
    """
    manifest = load_manifest(file)
    try:
        return manifest, Release.parse(f"{manifest.name}@{manifest.version}")
    except NameRefused as error:
        raise BundleRefused(f"{file}: {error}") from error


def parse_manifest(content: bytes) -> tuple[Manifest, Release]:
    """The same, of the bytes that an archive holds.

    Raises:
        BundleRefused: the manifest does not hold.
    """
    with tempfile.TemporaryDirectory(prefix="envhub-") as scratch:
        file = Path(scratch) / FILE_NAME
        file.write_bytes(content)
        try:
            return read_manifest(file)
        except (ConfigError, BundleRefused) as error:
            raise BundleRefused(str(error).replace(str(file), FILE_NAME)) from None
