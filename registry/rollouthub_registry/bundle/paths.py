"""Valid paths inside a bundle: plain, relative, valid on every file system, and distinct from each other."""

import unicodedata

from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.bundle.limits import PATH_BYTES, PATH_PARTS
from rollouthub_registry.names import RESERVED

_NOT_ON_WINDOWS = frozenset('<>:"|?*\\')
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories of control characters, invisible or direction-changing marks, and non-characters."""


def check_path(path: str) -> None:
    """Check that a path is allowed in a bundle.

    Raises:
        BundleRefused: the path leaves the folder, or some file systems would change it.
    """
    if problem := _problem(path):
        raise BundleRefused(f"the path {ascii(path)[:300]} {problem}")


def _problem(path: str) -> str | None:
    if path.startswith("/"):
        return "is absolute; paths in a bundle are relative"
    if any(unicodedata.category(character) in _UNSEEN for character in path):
        return "holds a control or invisible character; rename it"
    if len(path.encode()) > PATH_BYTES:
        return f"is longer than {PATH_BYTES} bytes; shorten it"
    if unicodedata.normalize("NFC", path) != path:
        return "is not in Unicode's normal form NFC, and would be another file on another system; rename it"
    parts = path.split("/")
    if len(parts) > PATH_PARTS:
        return f"is deeper than {PATH_PARTS} folders; flatten it"
    return next((problem for part in parts if (problem := _part_problem(part))), None)


def _part_problem(part: str) -> str | None:
    if part in ("", ".", ".."):
        return f"has the part {part!r}, which could lead out of the folder"
    if odd := next((character for character in part if character in _NOT_ON_WINDOWS), None):
        return f"holds {odd!r}, which Windows does not allow; rename it"
    if part != part.strip(" ") or part.endswith("."):
        return "has a part that begins or ends with a space, or ends with a dot; rename it"
    if part.partition(".")[0].strip().casefold() in RESERVED:
        return f"has the part {part!r}, which is a device on Windows; rename it"
    return None


class PathSet:
    """The paths added so far; detects paths that are equal on a case-insensitive file system."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def add(self, path: str) -> None:
        """Add a file's path.

        Raises:
            BundleRefused: the path is not allowed, was added before, differs from another only in case, or is also a
                folder.
        """
        check_path(path)
        folded = _folded(path)
        if (known := self._files.get(folded)) is not None:
            if known == path:
                raise BundleRefused(f"the path {path!r} is there twice")
            raise _one_elsewhere(known, path)
        if (known := self._folders.get(folded)) is not None:
            raise _one_elsewhere(known + "/", path)
        self._files[folded] = path
        while "/" in path:
            path = path.rpartition("/")[0]
            self._add_folder(path)

    def _add_folder(self, path: str) -> None:
        folded = _folded(path)
        if (known := self._files.get(folded)) is not None:
            raise _one_elsewhere(known, path + "/")
        if (known := self._folders.setdefault(folded, path)) != path:
            raise _one_elsewhere(known + "/", path + "/")


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path.casefold())


def _one_elsewhere(known: str, path: str) -> BundleRefused:
    return BundleRefused(f"the paths {known!r} and {path!r} are one where case does not count; rename one")
