"""The `env.toml` of a package, and which release it declares."""

from envhub.errors import ConfigError
from envhub.manifest import FILE_NAME, Manifest
from envhub.manifest import parse_manifest as parse
from envhub_registry.bundle.refusal import BundleRefused
from envhub_registry.names import NameRefused, Release


def parse_manifest(content: bytes, file: str = FILE_NAME) -> tuple[Manifest, Release]:
    """Check the bytes of a manifest; `file` is what errors call it.

    Raises:
        BundleRefused: it does not hold, or its name or version is none that a package can have.
    """
    try:
        manifest = parse(content, file)
    except ConfigError as error:
        raise BundleRefused(str(error)) from error
    try:
        return manifest, Release.parse(f"{manifest.name}@{manifest.version}")
    except NameRefused as error:
        raise BundleRefused(f"{file}: {error}") from error
