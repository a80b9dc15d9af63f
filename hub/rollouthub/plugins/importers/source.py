"""`ImportSource`: where an import reads from: a folder, a file, a published distribution, a git repository, or an
address.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from rollouthub.errors import ConfigError

SourceKind = Literal["folder", "file", "requirement", "git", "url"]
KINDS: dict[SourceKind, str] = {
    "folder": "a folder",
    "file": "a file",
    "requirement": "a published distribution (NAME==VERSION)",
    "git": "a git repository (git+URL@REVISION)",
    "url": "an address (https://…)",
}
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]*\])?\s*(===?|~=|!=|<=?|>=?)\s*\S.*")


@dataclass(frozen=True)
class ImportSource:
    """The place that an import reads from, and the kind of place it is."""

    text: str
    """The place as the caller wrote it."""
    kind: SourceKind
    patterns: tuple[str, ...] = ()
    """Patterns (`*`, `?`, `[…]`) for the names of the requested items; empty requests all of them. An importer that
    starts items to examine them may return only the items that match.
    """

    @classmethod
    def of(cls, text: str, patterns: Sequence[str] = ()) -> "ImportSource":
        """Parse a text: an existing path is a folder or file; otherwise the form of the text decides.

        Raises:
            ConfigError: the text has none of the known forms, or its address contains a user name or password.
        """
        path = Path(text)
        if path.is_dir():
            return cls(text, "folder", tuple(patterns))
        if path.is_file():
            return cls(text, "file", tuple(patterns))
        address = text.removeprefix("git+")
        if "://" in address:
            parts = urlsplit(address)
            if parts.username is not None or parts.password is not None:
                raise ConfigError("the address of a source carries a login, which would be kept; leave it out")
            kind = "git" if text.startswith("git+") or parts.path.endswith(".git") else "url"
            return cls(text, kind, tuple(patterns))
        if _REQUIREMENT.fullmatch(text):
            return cls(text, "requirement", tuple(patterns))
        raise ConfigError(
            f"there is no folder or file {text!r}; a published distribution is named with its version, as {text}==1.0"
        )

    @property
    def folder(self) -> Path:
        """The path of a source of kind `folder`; other kinds fail an assertion."""
        assert self.kind == "folder", "an importer is only handed what it takes"
        return Path(self.text)

    @property
    def name(self) -> str:
        """The source's name in packages made from it: the last part of a local path, without the folders above it,
        else the whole text.
        """
        return Path(self.text).resolve().name if self.kind in ("folder", "file") else self.text
