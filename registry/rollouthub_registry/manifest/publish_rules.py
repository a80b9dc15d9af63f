"""Rules that an environment's manifest must meet to be published."""

import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rollouthub.errors import UsageError
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.manifest import Manifest, PythonSection, TaskSource
from rollouthub.plugins.manifest.toml_places import TomlPlaces
from rollouthub_registry.names import PackageName, Version

_BY_DIGEST = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")
_HERE = re.compile(r"localhost|127(\.\d+){3}|0\.0\.0\.0|::1?")
"""Host names and addresses that mean the reader's own machine, such as localhost."""


@dataclass(frozen=True)
class ManifestProblem:
    """A reason why a manifest cannot be published."""

    file: str
    line: int
    key: str
    said: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.said}"


def check_publishable(manifest: Manifest, file: Path | None = None) -> list[ManifestProblem]:
    """All reasons why a manifest cannot be published, in the order of its lines; empty if it can.

    With the `file` it was read from, problems have line numbers, and the files that it names are checked, too.
    Nothing is run.
    """
    found = [*_identity(manifest), *_pins(manifest), *_addresses(manifest)]
    places = TomlPlaces("")
    if file is not None:
        found += _beside(manifest, file.parent)
        places = TomlPlaces(file.read_text(encoding="utf-8"))
    name = str(file) if file is not None else FILE_NAME
    problems = [ManifestProblem(name, places.line(key.split(".")), key, said) for key, said in found]
    return sorted(problems, key=lambda problem: problem.line)


def _identity(manifest: Manifest) -> Iterator[tuple[str, str]]:
    try:
        PackageName.parse(manifest.name)
    except UsageError as error:
        yield "name", str(error)
    try:
        Version.parse(manifest.version)
    except UsageError as error:
        yield "version", str(error)
    description = manifest.description.strip()
    if not description:
        yield "description", "say in one line what it is about"
    elif "\n" in description:
        yield "description", "it has several lines; say in one what it is about"
    if manifest.license is None:
        yield "license", "without one no other person may use it; give an SPDX expression, such as MIT or Apache-2.0"


def _pins(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Problems with data sets and images that are not pinned to a commit or digest, so that they may change."""
    for split, source in manifest.tasks.items():
        if source.hf is not None and source.revision is None:
            yield f"tasks.{split}.hf", f"{source.hf!r} may change; give the commit of the data set as `revision`"
    image = manifest.server.image if manifest.server is not None else None
    images = manifest.sandbox.images if manifest.sandbox is not None else ()
    for key, named in (("server.image", (image,) if image is not None else ()), ("sandbox.images", images)):
        for name in named:
            if not _BY_DIGEST.fullmatch(name):
                yield key, f"{name!r} may change; name it by digest, as NAME@sha256:DIGEST"


def _addresses(manifest: Manifest) -> Iterator[tuple[str, str]]:
    named = [(f"tasks.{split}.url", source.url) for split, source in manifest.tasks.items()]
    for section, where in (("server", manifest.server), ("verifier", manifest.verifier)):
        named.append((f"{section}.url", where.url if where is not None else None))
    for key, url in named:
        if url is not None and _HERE.fullmatch(urlsplit(url).hostname or ""):
            yield key, f"{url!r} is a place on this machine; others would look on theirs"


def _beside(manifest: Manifest, folder: Path) -> Iterator[tuple[str, str]]:
    for split, source in manifest.tasks.items():
        if source.file is not None:
            yield from ((f"tasks.{split}", said) for said in _task_file(source, source.file, folder))
    for split, accepted in manifest.accepted.items():
        if not _is_below(folder / accepted.file, folder):
            yield f"accepted.{split}", f"{accepted.file!r} lies outside the environment's folder"
    files = manifest.server.files if manifest.server is not None else None
    if files is not None and not _is_below(folder / files, folder):
        yield "server.files", f"{files!r} lies outside the environment's folder, and would not be in its bundle"
    if manifest.python is not None:
        yield from _project(manifest, manifest.python, folder / "pyproject.toml")


def _task_file(source: TaskSource, name: str, folder: Path) -> Iterator[str]:
    file = folder / name
    if not _is_below(file, folder):
        yield f"{name!r} lies outside the environment's folder, and would not be in its bundle"
    elif not file.is_file():
        yield f"there is no file {name!r} beside env.toml"
    elif source.sha256 is not None:
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if digest != source.sha256:
            yield f"{name!r} has the digest {digest}, not the declared one; change `sha256`, or leave it out"


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _project(manifest: Manifest, section: PythonSection, file: Path) -> Iterator[tuple[str, str]]:
    """Problems where the manifest disagrees with pyproject.toml; `dynamic` fields are unknown here."""
    if not file.is_file():
        return
    try:
        project: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        yield "python.distribution", f"{file.name} beside it cannot be read: {error}"
        return
    name, version = project.get("name"), project.get("version")
    if isinstance(name, str) and _normal(name) != _normal(section.distribution):
        yield "python.distribution", f"{section.distribution!r}, but {file.name} beside it says name = {name!r}"
    if isinstance(version, str) and version != manifest.version:
        yield "version", f"{manifest.version!r}, but {file.name} beside it says version = {version!r}"


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
