"""Inspects and moves a virtual environment without running anything in it."""

import csv
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import cast

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from rollouthub.plugins.lock import LockedDependency
from rollouthub_registry.install.install_error import InstallationDamaged, InstallRefused
from rollouthub_registry.install.install_home import interpreter
from rollouthub_registry.install.venv_contents import VenvContents

_CACHES = "__pycache__"
_OF_UV = ("_virtualenv.pth", "_virtualenv.py")
"""A file that older versions of uv add to site-packages, which Python runs at every start."""


def site_packages(venv: Path) -> Path:
    """The folder of its distributions.

    Raises:
        InstallationDamaged: it has no such folder.
    """
    found = sorted(venv.glob("lib/python*/site-packages"))
    if len(found) != 1 or not interpreter(venv).exists():
        raise InstallationDamaged(f"{venv} is no virtual environment with an interpreter")
    return found[0]


def distributions(venv: Path) -> dict[str, str]:
    """The distributions in it, by name, with their versions.

    Raises:
        InstallationDamaged: the folder is not a virtual environment.
    """
    names = (each.name.removesuffix(".dist-info") for each in site_packages(venv).glob("*.dist-info"))
    parts = (name.rpartition("-") for name in names)
    return {canonicalize_name(name): _plain(version) for name, _, version in parts}


def check_distributions(venv: Path, expected: Mapping[str, str]) -> None:
    """Check that exactly these distributions are installed, in these versions.

    Raises:
        InstallationDamaged: others are, or the folder is not a virtual environment.
    """
    wanted: dict[str, str] = {canonicalize_name(name): _plain(version) for name, version in expected.items()}
    there = distributions(venv)
    for name in sorted({*wanted, *there}):
        if wanted.get(name) != there.get(name):
            raise InstallationDamaged(
                f"its virtual environment has {name} {there.get(name, 'not at all')}, and was installed with"
                f" {wanted.get(name, 'none of it')}"
            )


def _plain(version: str) -> str:
    """A version in normalised form: 2024.08 in a wheel's name is 2024.8 in an index."""
    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def settle(venv: Path, final: Path) -> None:
    """Make its scripts name the path that it will be moved to; Python itself finds its own."""
    old, new = str(venv).encode(), str(final).encode()
    for name in _OF_UV:
        (site_packages(venv) / name).unlink(missing_ok=True)
    for file in (venv / "bin").iterdir():
        if file.is_symlink() or not file.is_file():
            continue
        content = file.read_bytes()
        if old in content and b"\0" not in content:
            file.write_bytes(content.replace(old, new))


def check_whole(venv: Path, wanted: VenvContents, dependencies: Iterable[LockedDependency]) -> None:
    """Check that the environment holds every requested distribution and all of their dependencies.

    Raises:
        InstallRefused: something is missing.
    """
    there = {wheel.name: wheel.version for wheel in wanted.wheels}
    there |= {canonicalize_name(each.name): each.version for each in dependencies}
    site, seen = site_packages(venv), set[tuple[str, str]]()
    pending = [Requirement(text) for text in wanted.requirements]
    pending += [Requirement(f"{wheel.name}[{','.join(wheel.extras)}]") for wheel in wanted.wheels]
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name not in there or not requirement.specifier.contains(there[name], prereleases=True):
            raise InstallRefused(
                f"the locked dependencies are not enough for this hub and Python: it needs {requirement}, and the lock"
                f" has {there.get(name, 'none')}; lock it anew"
            )
        for extra in {"", *requirement.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                pending += _needs(site, name, extra)


def _needs(site: Path, name: str, extra: str) -> Iterator[Requirement]:
    info = next(each for each in site.glob("*.dist-info") if canonicalize_name(each.name.split("-")[0]) == name)
    environment = cast(dict[str, str], default_environment()) | {"extra": extra}
    for text in PathDistribution(info).requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield requirement


def check_files(venv: Path, wheel: Path) -> None:
    """Check that a wheel's files are installed unchanged.

    Raises:
        InstallationDamaged: a file is missing or differs.
    """
    site = site_packages(venv)
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info/"
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            # RECORD is written anew at install; scripts get another first line.
            if (path := _installed(entry.filename)) is None or path.startswith(f"{info}RECORD"):
                continue
            try:
                same = (site / path).read_bytes() == archive.read(entry)
            except OSError as error:
                raise InstallationDamaged(f"{path!r} of its wheel cannot be read: {error.strerror}") from error
            if not same:
                raise InstallationDamaged(f"{path!r} of its wheel was changed after it was installed")


def check_no_others(venv: Path, wheel: Path | None) -> None:
    """Check that site-packages has only files of distributions; bytecode of the bundle's wheel is removed.

    Else Python would load an added `sitecustomize.py` or `.pth`, or a library in the place of a module.

    Raises:
        InstallationDamaged: there is another file.
    """
    site = site_packages(venv)
    if "include-system-site-packages = true" in (venv / "pyvenv.cfg").read_text(encoding="utf-8").lower():
        raise InstallationDamaged(f"{venv} lets in what is installed outside of it")
    brought = {path for record in site.glob("*.dist-info/RECORD") for path in _recorded(record)}
    known = {path.partition("/")[0] for path in brought} | {_CACHES}
    _refuse_others(site, known, "")
    if wheel is None:
        return
    with zipfile.ZipFile(wheel) as archive:
        own = {path for name in archive.namelist() if (path := _installed(name)) is not None}
    for folder in {path.rpartition("/")[0] for path in own if path.endswith(".py")}:
        start = f"{folder}/" if folder else ""
        known = {path.removeprefix(start).partition("/")[0] for path in brought | own if path.startswith(start)}
        _refuse_others(site / folder, known | {_CACHES}, start)
        # Python would believe it, whatever it holds; another process may be writing or removing some now.
        for left in (site / folder / _CACHES).glob("*"):
            left.unlink(missing_ok=True)


def _refuse_others(folder: Path, known: set[str], start: str) -> None:
    if others := sorted(name for each in folder.iterdir() if (name := each.name) not in known):
        raise InstallationDamaged(f"{start + others[0]!a} in its virtual environment came with no distribution")


def _recorded(record: Path) -> Iterator[str]:
    """The files that a distribution's RECORD lists."""
    with record.open(encoding="utf-8", newline="") as lines:
        yield from (row[0] for row in csv.reader(lines) if row)


def _installed(path: str) -> str | None:
    """Where a file of a wheel is installed in site-packages; None if it goes elsewhere."""
    first, _, rest = path.partition("/")
    if not first.endswith(".data"):
        return path
    scheme, _, rest = rest.partition("/")
    return rest if scheme in ("purelib", "platlib") else None
