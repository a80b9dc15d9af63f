"""The names of packages, `namespace/name` and `namespace/name@version`, restricted so that no two look alike."""

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Literal

from rollouthub.errors import UsageError

LONGEST_NAMESPACE = 39
LONGEST_NAME = 60
LONGEST_VERSION = 60
RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(1, 10)), *(f"lpt{digit}" for digit in range(1, 10))}
)
"""Names that Windows reserves for devices, whatever their suffix; a package's name becomes a folder's."""

_WORD = re.compile(r"[a-z0-9](?:[-_.]?[a-z0-9])*")
_NUMBER = r"(?:0|[1-9]\d{0,8})"
_IDENTIFIER = r"(?:0|[1-9]\d{0,8}|\d*[a-z-][0-9a-z-]*)"
_VERSION = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?", re.ASCII)
_BETWEEN = {"namespace": "single `-` or `.`", "name": "single `-`, `_` or `.`"}
_LOOKALIKES = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "-": None, "_": None, ".": None})


class NameRefused(UsageError):
    """A text is not a valid name, version or range of a package."""


@total_ordering
@dataclass(frozen=True)
class Version:
    """A semantic version (semver.org 2.0.0), lower-case and without build metadata."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parse `1.2.3` or `1.2.3-rc.1`.

        Raises:
            NameRefused: the text is neither.
        """
        found = _VERSION.fullmatch(text) if len(text) <= LONGEST_VERSION else None
        if found is None:
            raise NameRefused(
                f"{_shown(text)} is no version; write it as 1.2.3 or 1.2.3-rc.1 (lower case, no leading zeros, no `+`)"
            )
        return cls(int(found[1]), int(found[2]), int(found[3]), tuple(found[4].split(".")) if found[4] else ())

    def __str__(self) -> str:
        core = f"{self.major}.{self.minor}.{self.patch}"
        return f"{core}-{'.'.join(self.prerelease)}" if self.prerelease else core

    def __lt__(self, other: "Version") -> bool:
        return self._precedence() < other._precedence()

    def _precedence(self) -> tuple[object, ...]:
        """The sort key of semver: a prerelease before its release, numbers before words, fewer identifiers before
        more.
        """
        identifiers = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, identifiers)


@dataclass(frozen=True, order=True)
class PackageName:
    """A package's name: `namespace/name`."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "PackageName":
        """Parse `namespace/name`.

        Raises:
            NameRefused: a part is missing, or has characters that are not allowed.
        """
        namespace, slash, name = text.partition("/")
        if not slash:
            raise NameRefused(f"{_shown(text)} has no namespace; write namespace/name")
        return cls(_word(namespace, "namespace", LONGEST_NAMESPACE), _word(name, "name", LONGEST_NAME))

    @property
    def skeleton(self) -> str:
        """A key that is equal for names that look alike, such as `lab/my-env` and `1ab/my_env`."""
        return f"{skeleton(self.namespace)}/{skeleton(self.name)}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Release:
    """One version of a package, `namespace/name@version`, whose content never changes."""

    package: PackageName
    version: Version

    @classmethod
    def parse(cls, text: str) -> "Release":
        """Parse `namespace/name@version`.

        Raises:
            NameRefused: the text has another form.
        """
        package, at, version = text.partition("@")
        if not at:
            raise NameRefused(f"{_shown(text)} has no version; write namespace/name@1.2.3")
        return cls(PackageName.parse(package), Version.parse(version))

    @property
    def file_name(self) -> str:
        """The bundle's file name. No part of a release contains `__`, so that the release can be read back from it."""
        return f"{self.package.namespace}__{self.package.name}-{self.version}.envhub"

    def __str__(self) -> str:
        return f"{self.package}@{self.version}"


def parse_namespace(text: str) -> str:
    """Check that a text is a valid namespace, and return it.

    Raises:
        NameRefused: it has characters that are not allowed.
    """
    return _word(text, "namespace", LONGEST_NAMESPACE)


def skeleton(word: str) -> str:
    """A word without separators and with digits replaced by similar letters; words with equal skeletons look alike."""
    return word.translate(_LOOKALIKES).replace("rn", "m").replace("vv", "w")


@lru_cache(maxsize=10_000)
def _word(text: str, kind: Literal["namespace", "name"], longest: int) -> str:
    if len(text) > longest:
        raise NameRefused(f"the {kind} {_shown(text)} is too long: {len(text)} characters; {longest} are allowed")
    if not text.isascii():
        odd = next(character for character in text if not character.isascii())
        raise NameRefused(
            f"the {kind} {_shown(text)} holds U+{ord(odd):04X}, which can look like another letter; use a-z and 0-9"
        )
    if kind == "namespace" and "_" in text:
        raise NameRefused(f"the namespace {_shown(text)} holds `_`, which names of MCP servers do not take; use `-`")
    if not _WORD.fullmatch(text):
        raise NameRefused(f"{_shown(text)} is no {kind}; use a-z and 0-9, with {_BETWEEN[kind]} between them")
    if text.partition(".")[0] in RESERVED:
        raise NameRefused(f"the {kind} {_shown(text)} is a device's on Windows; take another")
    return text


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 100 else text[:100] + "...")
