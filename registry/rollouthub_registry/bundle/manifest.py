"""Parses the `env.toml` of a package, and reads the release that it declares."""

import posixpath
from collections.abc import Sequence

from rollouthub.errors import ConfigError
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.manifest import Manifest
from rollouthub.plugins.manifest import parse_manifest as parse
from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.names import NameRefused, Release


def parse_manifest(content: bytes, file: str = FILE_NAME) -> tuple[Manifest, Release]:
    """Parse and validate the bytes of a manifest; `file` names it in error messages.

    Raises:
        BundleRefused: it is invalid, or its name or version is not valid for a package.
    """
    try:
        manifest = parse(content, file)
    except ConfigError as error:
        raise BundleRefused(str(error)) from error
    try:
        return manifest, Release.parse(f"{manifest.name}@{manifest.version}")
    except NameRefused as error:
        raise BundleRefused(f"{file}: {error}") from error


def check_named(manifest: Manifest, files: Sequence[str]) -> None:
    """Check that the files that a manifest names are in the bundle.

    Raises:
        BundleRefused: a file is missing.
    """
    named = [(split, source.file) for split, source in manifest.tasks.items() if source.file is not None]
    named += [(split, accepted.file) for split, accepted in manifest.accepted.items()]
    for split, file in named:
        if posixpath.normpath(file) not in files:
            raise BundleRefused(
                f"{FILE_NAME} names {file!r} for the tasks of {split!r}, but no such file is in the bundle; "
                "put it into the folder, and see that it is not ignored"
            )
    folder = None if manifest.server is None else manifest.server.files
    if folder is not None:
        start = posixpath.normpath(folder) + "/"
        if not any(file.startswith(start) for file in files) and start != "./":
            raise BundleRefused(
                f"{FILE_NAME} names the folder {folder!r} in `server.files`, but nothing of it is in the bundle; "
                "put it into the folder, and see that it is not ignored"
            )
