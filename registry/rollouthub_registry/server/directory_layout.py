"""The layout of a registry's directory, the same whether it is served or read as plain files."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rollouthub_registry.names import NameRefused, PackageName, Release, Version

BUNDLE = "bundle.envhub"
STATEMENT = "statement.dsse.json"
YANKED = "yanked.json"
AUDIT = "audit.dsse.json"
_PACKAGES = "packages"
FORMAT = 1
"""Format of the directory, as stated in its `registry.json`."""


@dataclass(frozen=True)
class Layout:
    """The paths of one registry."""

    root: Path

    @property
    def packages(self) -> Path:
        """Root of the packages: NAMESPACE/NAME/VERSION."""
        return self.root / _PACKAGES

    @property
    def namespaces(self) -> Path:
        """Folder with a file for each namespace that names its owners."""
        return self.root / "namespaces"

    @property
    def incoming(self) -> Path:
        """Folder for uploads in progress, on the packages' file system, so that one rename publishes."""
        return self.root / "incoming"

    @property
    def index(self) -> Path:
        """The search index, made from the packages; if lost, it is rebuilt."""
        return self.root / "index.db"

    @property
    def tokens(self) -> Path:
        """Database of the upload tokens."""
        return self.root / "tokens.db"

    @property
    def marker(self) -> Path:
        """The file that marks the directory as a registry and states its format; clients ask for it first."""
        return self.root / "registry.json"

    @property
    def catalog(self) -> Path:
        """Log with a line for each publication and yank, for readers of plain files."""
        return self.root / "catalog.jsonl"

    @property
    def lock(self) -> Path:
        """The lock file for changes of the packages."""
        return self.root / ".lock"

    def package(self, package: PackageName) -> Path:
        """A package's folder."""
        return self.root.joinpath(_PACKAGES, package.namespace, package.name)

    def versions_file(self, package: PackageName) -> Path:
        """Log with the catalogue's lines for one package."""
        return self.package(package) / "versions.jsonl"

    def version(self, release: Release) -> Path:
        """A version's folder, which appears complete and does not change, but for a yank and an audit."""
        package = release.package
        # At once: a path for each of its parts is what making an index would take its time for.
        return self.root.joinpath(_PACKAGES, package.namespace, package.name, str(release.version))

    def bundle(self, release: Release) -> Path:
        """A version's archive."""
        return self.version(release) / BUNDLE

    def statement(self, release: Release) -> Path:
        """The signed statement of a version."""
        return self.version(release) / STATEMENT

    def yanked(self, release: Release) -> Path:
        """The mark of a yanked version, which is added later."""
        return self.version(release) / YANKED

    def audit(self, release: Release) -> Path:
        """The signed audit of a version by whoever keeps the registry; added and replaced later."""
        return self.version(release) / AUDIT

    def owners(self, namespace: str) -> Path:
        """The file that names a namespace's owners."""
        return self.namespaces / f"{namespace}.json"

    def releases(self) -> Iterator[Release]:
        """All published versions, sorted by name; folders whose names are not valid are skipped."""
        for namespace in _folders(self.packages):
            for name in _folders(self.packages / namespace):
                for version in _folders(self.packages / namespace / name):
                    try:
                        yield Release(PackageName.parse(f"{namespace}/{name}"), Version.parse(version))
                    except NameRefused:
                        continue


def sort_key(version: Version) -> str:
    """A text whose byte order, as SQLite compares, is the order of semantic versions."""
    core = f"{version.major:09}{version.minor:09}{version.patch:09}"
    if not version.prerelease:
        return f"{core}~"
    words = (f"0{int(word):09} " if word.isdigit() else f"1{word} " for word in version.prerelease)
    return f"{core}-{''.join(words)}"


def _folders(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []
