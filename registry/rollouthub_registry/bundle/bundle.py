"""Builds a bundle from a folder, validates one, and unpacks one."""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.manifest import Manifest
from rollouthub_registry.bundle.archive import read_archive, write_archive
from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.bundle.file_selection import SourceFile, Tally, collect
from rollouthub_registry.bundle.hub_wheel import DISTRIBUTION, hub_wheel
from rollouthub_registry.bundle.limits import MANIFEST_BYTES
from rollouthub_registry.bundle.manifest import check_named, parse_manifest
from rollouthub_registry.bundle.wheel import canonical_wheel, distribution, is_wheel_path, normal
from rollouthub_registry.bundle.wheel_build import build_wheel, needs_wheel
from rollouthub_registry.names import Release


@dataclass(frozen=True)
class Bundle:
    """A bundle's archive that was read from end to end and is valid."""

    path: Path
    digest: str
    """`sha256:…` of the archive's bytes."""
    size: int
    manifest: Manifest
    release: Release
    files: tuple[str, ...]
    """Paths of its files, in the archive's order."""

    @property
    def wheel(self) -> str | None:
        """The path of its wheel; None if it holds none."""
        return next((path for path in self.files if is_wheel_path(path)), None)


def build_bundle(folder: Path, out: Path) -> Bundle:
    """Build a bundle from an environment's folder; writes `NAMESPACE__NAME-VERSION.envhub` into the folder `out`.

    The same files give the same bytes on every machine. A Python package's wheel is built, unless there is one in
    `wheel/`; if the manifest names the hub's own distribution, the running hub's wheel is used. Blocks until it is
    done.

    Raises:
        BundleRefused: its `env.toml` is invalid, a file must not be in a bundle, or its wheel cannot be built.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise BundleRefused(f"{folder} is no folder; name the one that holds {FILE_NAME}")
    file = folder / FILE_NAME
    with tempfile.TemporaryDirectory(prefix="rollouthub-") as scratch, _said_of(f"{folder} cannot be bundled"):
        if not file.is_file():
            raise BundleRefused(f"it holds no {FILE_NAME}, which says what the environment is")
        manifest, release = parse_manifest(file.read_bytes(), str(file))
        sources = _with_wheel(folder, manifest, collect(folder), Path(scratch))
        made = Path(scratch) / release.file_name
        with made.open("xb") as sink:
            digest, _ = write_archive(sources, sink)
        bundle = open_bundle(made)
        assert bundle.digest == digest
        return replace(bundle, path=_put(made, out / release.file_name))


def open_bundle(path: Path) -> Bundle:
    """Read a bundle's archive from end to end and validate all of it.

    Raises:
        BundleRefused: the file is not one that `build_bundle` could have made.
    """
    with _said_of(f"{path} is refused"), path.open("rb") as source:
        reader, files, manifest = read_archive(source), list[str](), None
        for member in reader.members():
            files.append(member.path)
            if member.path == FILE_NAME:
                if member.size > MANIFEST_BYTES:
                    raise BundleRefused(f"{FILE_NAME} has {member.size:,} bytes; {MANIFEST_BYTES:,} are allowed")
                manifest = b"".join(member.chunks)
        assert reader.digest is not None
        if manifest is None:
            raise BundleRefused(f"it holds no {FILE_NAME}")
        declared, release = parse_manifest(manifest)
        bundle = Bundle(path, reader.digest, reader.size, declared, release, tuple(files))
        check_named(declared, files)
        _check_distribution(bundle)
        return bundle


def extract(bundle: Bundle, folder: Path) -> None:
    """Unpack a bundle into a folder that does not exist yet; the folder appears complete or not at all.

    Raises:
        BundleRefused: the folder exists or cannot be written, or the archive changed since it was opened.
    """
    if folder.exists() or folder.is_symlink():
        raise BundleRefused(f"{bundle.path} cannot be unpacked to {folder}: it is there already")
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.partial")
    with _said_of(f"{bundle.path} cannot be unpacked to {folder}"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(mode=0o755)
        try:
            _unpack(bundle, partial)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _check_distribution(bundle: Bundle) -> None:
    """Check that a bundle of a Python environment holds the wheel of the distribution that its manifest names."""
    if bundle.manifest.python is None:
        return
    named = bundle.manifest.python.distribution
    if bundle.wheel is None:
        raise BundleRefused(f"it holds no wheel of {named!r}; write a pyproject.toml, or put the wheel into wheel/")
    found = distribution(bundle.wheel)
    if found != normal(named):
        raise BundleRefused(f"its wheel is of {found!r}, but {FILE_NAME} names the distribution {named!r}")


def _unpack(bundle: Bundle, partial: Path) -> None:
    with bundle.path.open("rb") as source:
        reader = read_archive(source)
        for member in reader.members():
            target = partial / member.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as sink:
                for chunk in member.chunks:
                    sink.write(chunk)
            target.chmod(0o755 if member.is_executable else 0o644)
    if reader.digest != bundle.digest:
        raise BundleRefused(f"it changed since it was checked ({bundle.digest} → {reader.digest})")


def _with_wheel(folder: Path, manifest: Manifest, sources: Sequence[SourceFile], scratch: Path) -> list[SourceFile]:
    """The files, with the wheel (found, built or the hub's own) rewritten in a bundle's canonical form."""
    wheels = [source.file for source in sources if is_wheel_path(source.path)]
    if len(wheels) > 1:
        raise BundleRefused(f"wheel/ holds {len(wheels)} wheels; leave the one to publish")
    if not wheels and needs_wheel(folder):
        wheels = [build_wheel(sources, scratch)]
    if not wheels and manifest.python is not None and normal(manifest.python.distribution) == DISTRIBUTION:
        wheels = [hub_wheel(os.environ)]
    if not wheels:
        return list(sources)
    name = wheels[0].name
    file = scratch / "wheel.zip"
    file.write_bytes(canonical_wheel(name, wheels[0].read_bytes()))
    wheel = SourceFile(f"wheel/{name}", file, file.stat().st_size, is_executable=False)
    kept = [source for source in sources if not is_wheel_path(source.path)]
    tally, everything = Tally(), sorted([*kept, wheel], key=lambda source: source.path.encode())
    for source in everything:
        tally.add(source.path, source.size)
    return everything


def _put(made: Path, target: Path) -> Path:
    """Copy a finished archive to its target, where it appears at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
    try:
        shutil.copyfile(made, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return target


@contextlib.contextmanager
def _said_of(what: str) -> Generator[None]:
    """Prefix refusals and system errors with what was attempted."""
    try:
        yield
    except BundleRefused as error:
        raise BundleRefused(f"{what}: {error}") from error
    except OSError as error:
        raise BundleRefused(f"{what}: {error.strerror or error}") from error
