"""The wheel in a bundle: a zip of which there is exactly one for the same files, and which runs nothing at install.

Its files are stored, not compressed, as in the bundle itself. A reader writes the zip again and compares the bytes, so
that no two unpackers can disagree on its content.
"""

import io
import re
import struct
import zipfile
import zlib

from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.bundle.limits import FILE_BYTES, FILES
from rollouthub_registry.bundle.paths import PathSet
from rollouthub_registry.bundle.secrets import check_name

_FILE_NAME = re.compile(r"[A-Za-z0-9_.]+-[A-Za-z0-9_.!+]+(?:-\d\w*)?-[\w.]+-[\w.]+-[\w.]+\.whl", re.ASCII)
_SITE = re.compile(r"(?:[^/]+\.data/(?:purelib|platlib)/)?[^/]+")
"""A path directly in site-packages, where Python looks for files to run at every start."""
_AT_START = ("sitecustomize.py", "usercustomize.py")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LINK = 0o120000
_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, OSError, ValueError, LookupError)
"""Exceptions that zipfile raises for a file that is no zip, is damaged, or uses an unknown compression."""


def is_wheel_path(path: str) -> bool:
    """Whether a path in a bundle is the path of a wheel."""
    return path.startswith("wheel/") and path.endswith(".whl")


def distribution(path: str) -> str:
    """The distribution of a wheel, from its file name."""
    return normal(path.rpartition("/")[2].split("-")[0])


def normal(name: str) -> str:
    """A distribution's name in the spelling of wheel file names."""
    return re.sub(r"[-_.]+", "_", name).lower()


def canonical_wheel(name: str, content: bytes) -> bytes:
    """The wheel rewritten as the one zip for its files: stored, in order of their paths.

    Raises:
        BundleRefused: the file is no wheel, or would run code when it is installed or when Python starts.
    """
    if not _FILE_NAME.fullmatch(name):
        raise BundleRefused(f"{name!r} is no name of a wheel")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _rewritten(name, archive)
    except _UNREADABLE as error:
        raise BundleRefused(f"the wheel {name!r} cannot be read: {error}") from error


def check_wheel(name: str, content: bytes) -> None:
    """Check that a bundle's wheel is valid, runs nothing at install, and is the one zip for its files.

    Raises:
        BundleRefused: the wheel is not valid, or not in the canonical form.
    """
    if canonical_wheel(name, content) != content:
        raise BundleRefused(f"the wheel {name!r} is not in the one form a bundle's wheel has; build it with rollouthub")


def _rewritten(name: str, archive: zipfile.ZipFile) -> bytes:
    entries = sorted((entry for entry in archive.infolist() if not entry.is_dir()), key=lambda entry: entry.filename)
    if len(entries) > FILES:
        raise BundleRefused(f"the wheel {name!r} holds {len(entries)} files; {FILES} are allowed")
    paths, left, sink = PathSet(), FILE_BYTES, io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as out:
        for entry in entries:
            _check_entry(name, entry)
            paths.add(entry.filename)
            content = _content(name, archive, entry, left)
            left -= len(content)
            again = zipfile.ZipInfo(entry.filename, _EPOCH)
            again.create_system = 3
            is_executable = bool(entry.external_attr >> 16 & 0o100)
            again.external_attr = (0o100755 if is_executable else 0o100644) << 16
            out.writestr(again, content)
    _check_metadata(name, [entry.filename for entry in entries])
    return sink.getvalue()


def _check_entry(name: str, entry: zipfile.ZipInfo) -> None:
    path = entry.filename
    if entry.external_attr >> 16 & 0o170000 == _LINK:
        raise BundleRefused(f"the wheel {name!r} holds the symbolic link {path!r}; links are not allowed")
    if entry.orig_filename != path:
        raise BundleRefused(f"the wheel {name!r} holds the odd path {entry.orig_filename!r}")
    if _SITE.fullmatch(path) and (path.endswith(".pth") or path.rpartition("/")[2] in _AT_START):
        raise BundleRefused(f"the wheel {name!r} holds {path!r}, which runs at every start of Python; leave it out")
    check_name(path)


def _content(name: str, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, left: int) -> bytes:
    with archive.open(entry) as source:
        content = source.read(left + 1)
        if len(content) > left:
            raise BundleRefused(f"the wheel {name!r} unpacks to more than {FILE_BYTES:,} bytes")
        return content


def _check_metadata(name: str, paths: list[str]) -> None:
    """Check that a wheel has one folder `*.dist-info`, named like the wheel, with its metadata."""
    infos = {path.partition("/")[0] for path in paths if path.partition("/")[0].endswith(".dist-info")}
    wanted = "-".join(name.split("-")[:2]) + ".dist-info"
    if infos != {wanted} or not {f"{wanted}/{file}" for file in ("METADATA", "WHEEL", "RECORD")} <= set(paths):
        raise BundleRefused(f"{name!r} is no wheel: METADATA, WHEEL and RECORD are not in {wanted}")
