"""Verifies that the files of an installation are those that were installed."""

import os
import shutil
import stat
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, cast

from packaging.utils import canonicalize_name

from rollouthub.errors import ConfigError
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.manifest import load_manifest
from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.bundle.encoding import END, StoredGzip, header, padding
from rollouthub_registry.bundle.file_selection import SourceFile
from rollouthub_registry.bundle.hub_wheel import DISTRIBUTION
from rollouthub_registry.bundle.limits import CHUNK_BYTES
from rollouthub_registry.install.install_error import InstallationDamaged
from rollouthub_registry.install.install_home import CONTENT, STATEMENT, VENV, InstallHome
from rollouthub_registry.install.install_record import InstalledRecord
from rollouthub_registry.install.virtual_environment import check_distributions, check_files, check_no_others
from rollouthub_registry.names import Release
from rollouthub_registry.trust.pin_store import TrustStore
from rollouthub_registry.trust.signatures import open_envelope, parse_envelope
from rollouthub_registry.trust.trust_error import TrustRefused

_CACHES = "__pycache__"


def verify_installed(installation: Installation, home: InstallHome) -> None:
    """Check an installation's files against the bundle's digest, and its signature, record, wheel and dependencies.

    Exactly the locked versions of its dependencies must be installed; the files of those dependencies are not read
    again.

    Raises:
        ConfigError: the installation's record is damaged.
        InstallationDamaged: another part of the installation is damaged.
    """
    record = home.record(installation)
    folder = home.folder(record.release)
    try:
        _check_record(installation, record)
        _check_statement(record, folder / STATEMENT)
        _check_content(record, folder / CONTENT)
        _check_manifest(record, folder / CONTENT / FILE_NAME)
        _check_environment(record, folder)
    except (InstallationDamaged, BundleRefused, TrustRefused, ConfigError, OSError) as error:
        said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise InstallationDamaged(
            f"{installation.target} is not used, since it is not what was installed: {said}; "
            f"`hub remove {installation.target}`, then install it again"
        ) from error


def verify_trusted(installation: Installation, trust: TrustStore) -> None:
    """Check that the key that signed it is still trusted, and that its version was never seen with other bytes.

    Raises:
        TrustRefused: one of these is not so.
        TrustStoreError: the trust store cannot be read.
    """
    locked = installation.locked
    if locked.key_id is None or locked.bundle is None:
        return
    pins, release = trust.pins(), Release.parse(installation.target)
    pins.check_key(release.package.namespace, locked.key_id)
    pins.check_version(release, locked.bundle, is_exact=True)


def _check_record(installation: Installation, record: InstalledRecord) -> None:
    if installation.locked != record.locked:
        raise InstallationDamaged("it was installed anew in the meantime")
    here = version(DISTRIBUTION)
    # One of the hub's own brings the hub that it was published with, and the contract says whether they can speak.
    if record.is_class and record.distribution != DISTRIBUTION and record.hub_version != here:
        raise InstallationDamaged(f"hub {record.hub_version} is installed with it, and this is hub {here}")


def _check_statement(record: InstalledRecord, file: Path) -> None:
    """Check the signature, and that the record agrees with the signed statement."""
    if record.locked.key_id is None:
        return
    signed = open_envelope(parse_envelope(file.read_bytes()))
    statement = signed.statement
    said = (str(statement.release), statement.digest, signed.key.id, statement.predicate.tools_digest)
    kept = (str(record.release), record.locked.bundle, record.locked.key_id, record.tools_digest)
    for one, other in zip(said, kept, strict=True):
        if one != other:
            raise InstallationDamaged(f"its signed statement says {one}, and its record {other}")


def _check_content(record: InstalledRecord, content: Path) -> None:
    """Check that the files give the same archive again: no byte changed and no file was added."""
    if _digest(content) == record.locked.bundle:
        return
    # Python leaves its caches beside what it imports; they could hold anything, so they go.
    for caches in [each for each in content.rglob(_CACHES) if each.is_dir() and not each.is_symlink()]:
        shutil.rmtree(caches)
    if (found := _digest(content)) != record.locked.bundle:
        raise InstallationDamaged(f"the files in {content} are {found}, and were {record.locked.bundle}")


def _check_manifest(record: InstalledRecord, file: Path) -> None:
    """Check that the record agrees with the manifest on how it is run and which environment variables it gets."""
    manifest = load_manifest(file)
    said = (manifest.name, manifest.version, manifest.python is not None, manifest.needed_variables)
    kept = (record.locked.name, record.locked.version, record.is_class, record.secrets)
    if said != kept:
        raise InstallationDamaged(f"its manifest says {said}, and its record {kept}")


def _digest(content: Path) -> str:
    """The digest of the archive that these files make, without scanning them for secrets, the slowest part of a
    build.
    """
    out = StoredGzip(cast(BinaryIO, _Nowhere()))
    for source in sorted(_walk(content, ""), key=lambda source: source.path.encode()):
        out.write(header(source.path, source.size, source.is_executable))
        with source.file.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                out.write(chunk)
        out.write(bytes(padding(source.size)))
    out.write(END)
    return out.finish()


class _Nowhere:
    """A file that discards what is written."""

    def write(self, chunk: bytes) -> int:
        return len(chunk)


def _walk(folder: Path, prefix: str) -> Iterator[SourceFile]:
    """Every file of the folder, none ignored: files that are not in the bundle must be noticed."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        path, file = prefix + entry.name, Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(file, path + "/")
            continue
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise InstallationDamaged(f"{path!a} is no plain file")
        yield SourceFile(path, file, status.st_size, bool(status.st_mode & stat.S_IXUSR))


def _check_environment(record: InstalledRecord, folder: Path) -> None:
    """Check that the virtual environment has the bundle's wheel, unchanged, and exactly the locked dependencies."""
    expected = {each.name: each.version for each in record.locked.dependencies}
    if record.is_class:
        expected[DISTRIBUTION] = record.hub_version
    wheel = next((folder / CONTENT / "wheel").glob("*.whl"), None)
    if wheel is not None:
        expected[canonicalize_name(wheel.name.split("-")[0])] = wheel.name.split("-")[1]
        check_files(folder / VENV, wheel)
    check_distributions(folder / VENV, expected)
    check_no_others(folder / VENV, wheel)
