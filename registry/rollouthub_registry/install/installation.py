"""Installs a bundle: unpacks it, installs its dependencies, writes its record, and renames it into place."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from packaging.utils import canonicalize_name

from rollouthub.errors import ConfigError
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedDependency, LockedEnvironment
from rollouthub.plugins.manifest import Manifest
from rollouthub_registry.bundle.bundle import Bundle, extract
from rollouthub_registry.bundle.hub_wheel import DISTRIBUTION
from rollouthub_registry.bundle.wheel import distribution
from rollouthub_registry.install.install_error import InstallationDamaged, InstallRefused
from rollouthub_registry.install.install_home import CONTENT, RECORD, STATEMENT, VENV, InstallHome
from rollouthub_registry.install.install_record import InstalledRecord
from rollouthub_registry.install.installer import Installer, choose_installer
from rollouthub_registry.install.venv_contents import wanted
from rollouthub_registry.install.virtual_environment import check_distributions, check_whole, settle
from rollouthub_registry.names import Release

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Origin:
    """Where a bundle came from, and what was signed about it."""

    source: str
    """URL of the registry, or the address of an archive, a folder or a repository."""
    key_id: str | None = None
    """Id of the key that signed it; None if it is unsigned."""
    tools_digest: str | None = None
    """Digest of the tool list that it was published with."""
    checks_passed: bool | None = None
    envelope: bytes | None = None
    """The signed envelope, byte by byte; None if it is unsigned."""


def _silent(_: str) -> None:
    """A progress callback that does nothing."""


def install(
    bundle: Bundle,
    origin: Origin,
    home: InstallHome,
    *,
    locked: LockedEnvironment | None = None,
    replace: bool = False,
    note: Callable[[str], None] = _silent,
    installer: Installer | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Installation:
    """Install a verified bundle; returns the installation. Blocks for seconds or longer.

    With `locked`, exactly its dependencies are installed, else they are resolved. An installation with the same bytes
    is returned as it is, unless `replace` is set. `note` is called at each step. No code of the environment is run.

    Raises:
        InstallRefused: it cannot be installed; nothing is left behind.
        BundleRefused: the bundle changed since it was opened, or the hub's wheel cannot be made.
    """
    release = bundle.release
    if locked is not None:
        _check_locked(bundle, locked)
    if not replace and (there := _there(bundle, home, locked)) is not None:
        return there
    try:
        with home.working(), tempfile.TemporaryDirectory(prefix="rollouthub-install-") as scratch:
            partial = home.aside(release)
            partial.mkdir(parents=True)
            try:
                making = _Making(bundle, partial, Path(scratch), installer or choose_installer(environ), environ, note)
                record = making.run(origin, locked, home.folder(release))
                _put(partial, release, home, replace)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
                home.tidy(release)
    except _Lost:
        there = _there(bundle, home, locked)
        assert there is not None
        return there
    except (InstallRefused, InstallationDamaged) as error:
        raise InstallRefused(f"{release} cannot be installed: {error}") from error
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise InstallRefused(f"{release} cannot be installed in {home.root}: {said}") from error
    return home.installation(record)


@dataclass(frozen=True)
class _Making:
    """The installation of one version into a temporary folder."""

    bundle: Bundle
    folder: Path
    scratch: Path
    installer: Installer
    environ: Mapping[str, str]
    note: Callable[[str], None]

    def run(self, origin: Origin, locked: LockedEnvironment | None, final: Path) -> InstalledRecord:
        extract(self.bundle, self.folder / CONTENT)
        venv = self.folder / VENV
        self.installer.create(venv)
        dependencies = self._fill(venv, locked)
        settle(venv, final / VENV)
        record = self._record(origin, locked, dependencies)
        (self.folder / RECORD).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        if origin.envelope is not None:
            (self.folder / STATEMENT).write_bytes(origin.envelope)
        return record

    def _fill(self, venv: Path, locked: LockedEnvironment | None) -> tuple[LockedDependency, ...]:
        contents = wanted(self.bundle, self.folder / CONTENT, self.environ)
        if contents.is_empty:
            return ()
        if locked is not None:
            dependencies = locked.dependencies
        else:
            self.note(f"choosing its dependencies with {self.installer.name}")
            dependencies = self.installer.resolve(contents, venv, self.scratch)
        self.note(f"installing {len(contents.wheels) + len(dependencies)} distributions with {self.installer.name}")
        self.installer.install(contents, dependencies, venv, self.scratch)
        # A setting of the user's may have led the installer elsewhere.
        check_distributions(venv, {each.name: each.version for each in (*contents.wheels, *dependencies)})
        if locked is not None:
            check_whole(venv, contents, dependencies)
        return dependencies

    def _record(
        self, origin: Origin, locked: LockedEnvironment | None, dependencies: tuple[LockedDependency, ...]
    ) -> InstalledRecord:
        manifest, release = self.bundle.manifest, self.bundle.release
        return InstalledRecord(
            locked=LockedEnvironment(
                name=str(release.package),
                version=str(release.version),
                bundle=self.bundle.digest,
                # The same bytes under the same hashes: what was seen of them before holds.
                code=None if locked is None else locked.code,
                tools=None if locked is None else locked.tools,
                source=origin.source,
                key_id=origin.key_id,
                python=PYTHON,
                images=_images(manifest),
                dependencies=dependencies,
            ),
            summary=manifest.description,
            is_class=manifest.python is not None,
            secrets=manifest.needed_variables,
            distribution=None if self.bundle.wheel is None else distribution(self.bundle.wheel),
            tools_digest=origin.tools_digest,
            checks_passed=origin.checks_passed,
            installed_at=datetime.now(UTC),
            hub_version=version(DISTRIBUTION),
            installer=self.installer.name,
        )


class _Lost(Exception):
    """Another process installed the same version in the meantime."""


def _put(partial: Path, release: Release, home: InstallHome, replace: bool) -> None:
    """Rename the finished folder to its place; a version to be replaced is moved away first, and back if that fails."""
    final = home.folder(release)
    old: Path | None = None
    if replace and final.exists():
        old = home.aside(release)
        final.rename(old)
    try:
        partial.rename(final)
    except OSError as error:
        if old is not None and not final.exists():
            old.rename(final)
        # A folder that holds something is not renamed over: somebody else was first.
        if final.exists():
            raise _Lost from error
        raise
    finally:
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)


def _there(bundle: Bundle, home: InstallHome, locked: LockedEnvironment | None) -> Installation | None:
    """The installation of this version with the same bytes; None if the version is not installed."""
    release = bundle.release
    try:
        there = home.find(str(release))
    except ConfigError as error:
        raise InstallRefused(str(error)) from error
    if there is None:
        return None
    if there.locked.bundle != bundle.digest:
        raise InstallRefused(
            f"{release} is installed already, with other content ({there.locked.bundle}, this is {bundle.digest}): a"
            f" version never changes; `hub remove {release}` first if you mean this one"
        )
    if locked is not None and not _are_alike(there.locked.dependencies, locked.dependencies):
        raise InstallRefused(
            f"{release} is installed already, with other dependencies than the lock has; `hub remove {release}` first"
        )
    return there


def _are_alike(some: Sequence[LockedDependency], others: Sequence[LockedDependency]) -> bool:
    """Whether two lists name the same distributions: equal versions, and a hash in common, as pip records fewer than
    uv.
    """
    one, other = ({canonicalize_name(each.name): each for each in each_of} for each_of in (some, others))
    return one.keys() == other.keys() and all(
        each.version == other[name].version and set(each.hashes) & set(other[name].hashes) for name, each in one.items()
    )


def _check_locked(bundle: Bundle, locked: LockedEnvironment) -> None:
    release = bundle.release
    if (locked.name, locked.version) != (str(release.package), str(release.version)):
        raise InstallRefused(f"the lock is of {locked.name}@{locked.version}, and the bundle of {release}")
    if locked.bundle != bundle.digest:
        raise InstallRefused(f"{release} is not what the lock says: it is {bundle.digest}, locked is {locked.bundle}")
    if locked.python is not None and locked.python != PYTHON:
        raise InstallRefused(
            f"the dependencies of {release} were locked for Python {locked.python}, and this hub runs on {PYTHON}; run"
            " the hub on that, or lock it anew"
        )


def _images(manifest: Manifest) -> tuple[str, ...]:
    server = None if manifest.server is None else manifest.server.image
    declared = () if manifest.sandbox is None else manifest.sandbox.images
    return tuple(dict.fromkeys(image for image in (*declared, server) if image is not None and "@sha256:" in image))
