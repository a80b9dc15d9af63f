"""`VenvContents`: the distributions that go into an environment's virtual environment, and those that may not."""

import hashlib
import platform
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from rollouthub_registry.bundle.bundle import Bundle
from rollouthub_registry.bundle.hub_wheel import DISTRIBUTION, hub_wheel
from rollouthub_registry.install.install_error import InstallRefused


@dataclass(frozen=True)
class LocalWheel:
    """A wheel on this machine; no distribution from an index may take its name."""

    name: str
    """Name of its distribution in normalised form (PEP 503)."""
    version: str
    file: Path
    extras: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """A requirement that only this file meets."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.name}{extras} @ {self.file.absolute().as_uri()}"

    @property
    def pinned(self) -> str:
        """A requirement that only the bytes of this file meet."""
        return f"{self.requirement} --hash=sha256:{hashlib.sha256(self.file.read_bytes()).hexdigest()}"


@dataclass(frozen=True)
class VenvContents:
    """The distributions requested for one virtual environment, before dependencies are resolved."""

    wheels: tuple[LocalWheel, ...] = ()
    requirements: tuple[str, ...] = ()
    """Requirements met from an index, or from wherever the user's settings say."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing needs to be installed."""
        return not (self.wheels or self.requirements)


def wanted(bundle: Bundle, content: Path, environ: Mapping[str, str]) -> VenvContents:
    """The distributions that a bundle asks for; its files are unpacked in `content`.

    A class gets the hub, which serves it; a declared server gets only the requirements in its manifest.

    Raises:
        InstallRefused: its wheel has the hub's name, requires a URL, or needs another Python.
        BundleRefused: the hub's wheel cannot be made.
    """
    manifest = bundle.manifest
    is_hubs = manifest.python is not None and canonicalize_name(manifest.python.distribution) == DISTRIBUTION
    own = () if bundle.wheel is None else (_own_wheel(content / bundle.wheel, is_hubs),)
    if manifest.python is None:
        assert manifest.server is not None
        return VenvContents(own, tuple(str(Requirement(text)) for text in manifest.server.requirements))
    extras = () if manifest.sandbox is None else ("docker",)
    own = tuple(replace(wheel, extras=manifest.python.extras) for wheel in own)
    if is_hubs:  # one of the hub's own, which brings the hub that it was published with
        return VenvContents(tuple(replace(wheel, extras=(*wheel.extras, *extras)) for wheel in own))
    file = hub_wheel(environ)
    return VenvContents((*own, LocalWheel(DISTRIBUTION, file.name.split("-")[1], file, extras)))


def _own_wheel(file: Path, is_hubs: bool) -> LocalWheel:
    name, version = (canonicalize_name(part) if not at else part for at, part in enumerate(file.name.split("-")[:2]))
    if re.sub(r"[-_.]", "", name) == DISTRIBUTION and not is_hubs:
        raise InstallRefused(f"its wheel {file.name!r} has the hub's own name; its author must call it otherwise")
    metadata = _metadata(file)
    if canonicalize_name(metadata["Name"] or "") != name or not _same(metadata["Version"] or "", version):
        raise InstallRefused(
            f"its wheel {file.name!r} says inside that it is {metadata['Name']!r} {metadata['Version']!r}"
        )
    needed = metadata["Requires-Python"] or ""
    try:
        fits = SpecifierSet(needed).contains(platform.python_version(), prereleases=True)
    except InvalidSpecifier:
        fits = False
    if not fits:
        raise InstallRefused(
            f"its wheel needs Python {needed}, and this hub runs on {platform.python_version()}; run the hub on such"
            " a Python, and install it there"
        )
    for text in metadata.get_all("Requires-Dist") or ():
        _check(text, file.name)
    return LocalWheel(name, version, file)


def _check(text: str, wheel: str) -> None:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise InstallRefused(f"its wheel {wheel!r} requires {text!r}, which is no requirement: {error}") from error
    if requirement.url is not None:
        raise InstallRefused(
            f"its wheel {wheel!r} requires {text!r}: what is at an address can change, and may have to be built; its"
            " author must name a version of a published wheel, or put the code into the package"
        )


def _metadata(file: Path) -> Message:
    name, version = file.name.split("-")[:2]
    # The bundle's reader has seen that it is a whole zip with this file in it.
    with zipfile.ZipFile(file) as archive, archive.open(f"{name}-{version}.dist-info/METADATA") as source:
        return BytesParser().parse(source, headersonly=True)


def _same(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other
