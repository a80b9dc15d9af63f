"""Version ranges: `1.2.3`, `^1.2`, `~1.2`, `1.x`, `>=1,<2`, `latest`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rollouthub_registry.names import NameRefused, PackageName, Version

_LONGEST = 200
_PART = re.compile(
    r"(?P<sign>\^|~|>=|<=|>|<|==?|)\s*(?P<numbers>(?:0|[1-9]\d{0,8})(?:\.(?:0|[1-9]\d{0,8}|[xX*]))*|[xX*])"
    r"(?P<prerelease>-[0-9a-z.-]+)?",
    re.ASCII,
)
_SIGNED = re.compile(r"([=<>^~:]+)")
"""Operators before a version; no name contains them."""
_HOW = "write 1.2.3, ^1.2, ~1.2, 1.x, '>=1,<2' or latest"
_Sign = Literal[">=", ">", "<", "<="]


@dataclass(frozen=True)
class Bound:
    """One end of a version range."""

    sign: _Sign
    version: Version

    def admits(self, version: Version) -> bool:
        """Whether a version is within this bound."""
        if self.sign == ">=":
            return version >= self.version
        if self.sign == ">":
            return version > self.version
        return version < self.version if self.sign == "<" else version <= self.version


@dataclass(frozen=True)
class Range:
    """A set of versions. It contains a prerelease only if a bound names a prerelease of the same version."""

    text: str
    """The range as written."""
    bounds: tuple[Bound, ...]
    exact: Version | None = None
    """The version, if the range names exactly one; else None."""

    @classmethod
    def parse(cls, text: str) -> "Range":
        """Parse a range; an empty text, `*` and `latest` mean all versions that are no prerelease.

        Raises:
            NameRefused: the text is no range.
        """
        written = text.strip()
        if written in ("", "latest"):
            return cls(written, ())
        if len(written) > _LONGEST:
            raise NameRefused(f"{written[:100]!a}… is no range of versions; {_HOW}")
        bounds, exact = list[Bound](), list[Version]()
        parts: list[str] = re.split(r"\s*,\s*|(?<=[\w*])\s+(?=[\^~<>=])", written)
        for part in parts:
            found = _PART.fullmatch(part)
            if found is None:
                raise NameRefused(f"{written!a} is no range of versions; {_HOW}")
            some = _bounds(found["sign"], found["numbers"], found["prerelease"] or "", written)
            bounds += some
            if len(some) == 2 and some[0].version == some[1].version:
                exact.append(some[0].version)
        return cls(written, tuple(bounds), exact[0] if len(parts) == 1 and exact else None)

    @property
    def is_exact(self) -> bool:
        """Whether the range names exactly one version."""
        return self.exact is not None

    def holds(self, version: Version) -> bool:
        """Whether a version is in the range."""
        if version.prerelease and not any(
            bound.version.prerelease and _core(bound.version) == _core(version) for bound in self.bounds
        ):
            return False
        return all(bound.admits(version) for bound in self.bounds)

    def best(self, versions: Iterable[Version]) -> Version | None:
        """The highest of the versions that is in the range; None if none is."""
        return max(filter(self.holds, versions), default=None)

    def __str__(self) -> str:
        return self.text or "latest"


@dataclass(frozen=True)
class VersionRequest:
    """A package and a range of its versions."""

    package: PackageName
    versions: Range

    @classmethod
    def parse(cls, text: str) -> "VersionRequest":
        """Parse `namespace/name` or `namespace/name@RANGE`.

        Raises:
            NameRefused: the text is neither.
        """
        package, at, versions = text.partition("@")
        if not package.strip():
            raise NameRefused(f"{text!a} names no environment; write namespace/name, or namespace/name@1.2.3")
        if at and not versions.strip():
            raise NameRefused(f"{text!a} names no version; {_HOW}, or leave the @ out for the highest")
        name, sign, version = _SIGNED.split(package, 1) if not at and _SIGNED.search(package) else (package, "", "")
        if sign:
            said = f"{name}@{sign.removeprefix(':')}{version}"
            raise NameRefused(f"{text[:100]!a} names no environment; a version comes after an @: {said[:100]!a}")
        return cls(PackageName.parse(package), Range.parse(versions))

    def __str__(self) -> str:
        return f"{self.package}@{self.versions.text}" if self.versions.text else str(self.package)


def _bounds(sign: str, numbers: str, prerelease: str, written: str) -> list[Bound]:
    """The bounds for one part of a range; an incomplete version such as `1.2` means all that begin with it."""
    given = _numbers(numbers, written)
    if len(given) < 3 and prerelease:
        raise NameRefused(f"{written!a} is no range of versions: a prerelease has all three numbers, as 1.2.3-rc.1")
    low = Version.parse(".".join(map(str, [*given, 0, 0, 0][:3])) + prerelease)
    if sign in ("", "=", "==") and len(given) == 3:
        return [Bound(">=", low), Bound("<=", low)]
    if sign in ("", "=", "=="):
        return [Bound(">=", low), *_below(given, len(given))]
    if sign == "~":
        return [Bound(">=", low), *_below(given, min(len(given), 2))]
    if sign == "^":
        # The first number that is not zero must stay: 0.2 is another than 0.3.
        leading = next((place for place, number in enumerate(given) if number), len(given) - 1)
        return [Bound(">=", low), *_below(given, leading + 1)]
    if sign == ">=" or (sign == "<" and given) or len(given) == 3:
        return [Bound(sign, low)]  # pyright: ignore[reportArgumentType]  # one of the four that the pattern leaves
    if sign == ">":
        return [Bound(">=", bound.version) for bound in _below(given, len(given))] or [Bound("<", Version(0, 0, 0))]
    return _below(given, len(given)) if sign == "<=" else [Bound("<", Version(0, 0, 0))]


def _below(given: list[int], places: int) -> list[Bound]:
    """The bound below the next version in the first `places` numbers; none if `places` is 0."""
    if not places:
        return []
    major, minor, patch = [*given[: places - 1], given[places - 1] + 1, 0, 0, 0][:3]
    return [Bound("<", Version(major, minor, patch))]


def _numbers(text: str, written: str) -> list[int]:
    """The numbers before the first `x`, after which only `x` is allowed."""
    words = text.split(".")
    fixed = [int(word) for word in words if word.isdigit()]
    if len(words) > 3 or not all(word.isdigit() for word in words[: len(fixed)]):
        raise NameRefused(f"{written!a} is no range of versions; {_HOW}")
    return fixed


def _core(version: Version) -> tuple[int, int, int]:
    return version.major, version.minor, version.patch
