"""The layout of a registry's directory, the same with a server and without."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rollouthub_registry.names import NameRefused, PackageName, Release, Version

BUNDLE = "bundle.envhub"
STATEMENT = "statement.dsse.json"
YANKED = "yanked.json"
_PACKAGES = "packages"
FORMAT = 1
"""Of the directory, as its `registry.json` says."""


@dataclass(frozen=True)
class Layout:
    """The paths of one registry."""

    root: Path

    @property
    def packages(self) -> Path:
        """A folder a namespace, in it one a package, in it one a version."""
        return self.root / _PACKAGES

    @property
    def namespaces(self) -> Path:
        """A file a namespace: who owns it."""
        return self.root / "namespaces"

    @property
    def incoming(self) -> Path:
        """Uploads on their way; on the same file system as the packages, so that one rename publishes."""
        return self.root / "incoming"

    @property
    def index(self) -> Path:
        """What is searched; made from the packages, and made again where it is lost."""
        return self.root / "index.db"

    @property
    def tokens(self) -> Path:
        """Who may publish through the server."""
        return self.root / "tokens.db"

    @property
    def marker(self) -> Path:
        """What says that this is a registry, and in which format: the first thing a client asks for."""
        return self.root / "registry.json"

    @property
    def catalog(self) -> Path:
        """A line for each publication and yank, for readers of plain files."""
        return self.root / "catalog.jsonl"

    @property
    def lock(self) -> Path:
        """Held by whoever changes the packages."""
        return self.root / ".lock"

    def package(self, package: PackageName) -> Path:
        """A package's folder."""
        return self.root.joinpath(_PACKAGES, package.namespace, package.name)

    def versions_file(self, package: PackageName) -> Path:
        """The lines of the catalogue that are of one package."""
        return self.package(package) / "versions.jsonl"

    def version(self, release: Release) -> Path:
        """A version's folder; it appears whole and stays as it is."""
        package = release.package
        # At once: a path for each of its parts is what making an index would take its time for.
        return self.root.joinpath(_PACKAGES, package.namespace, package.name, str(release.version))

    def bundle(self, release: Release) -> Path:
        """A version's archive."""
        return self.version(release) / BUNDLE

    def statement(self, release: Release) -> Path:
        """What its publisher signed."""
        return self.version(release) / STATEMENT

    def yanked(self, release: Release) -> Path:
        """The mark of a version that is not to be used any more; the only file that comes later."""
        return self.version(release) / YANKED

    def owners(self, namespace: str) -> Path:
        """Whose keys may publish in a namespace."""
        return self.namespaces / f"{namespace}.json"

    def releases(self) -> Iterator[Release]:
        """All there are, in the order of their names; what is not named as a release is not one."""
        for namespace in _folders(self.packages):
            for name in _folders(self.packages / namespace):
                for version in _folders(self.packages / namespace / name):
                    try:
                        yield Release(PackageName.parse(f"{namespace}/{name}"), Version.parse(version))
                    except NameRefused:
                        continue


def sort_key(version: Version) -> str:
    """A text that sorts as semantic versions do: SQLite compares it byte by byte."""
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
