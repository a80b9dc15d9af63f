"""Parses a registry's list of versions, which is untrusted JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollouthub.errors import invalid_fields
from rollouthub_registry.bundle.attestation import Baseline
from rollouthub_registry.client.offer import Offer, OfferedAudit
from rollouthub_registry.names import NameRefused, PackageName, Release, Version

LONGEST_LINE = 2**20
MOST_VERSIONS = 100_000
_Short = Annotated[str, Field(max_length=200)]


class _Open(BaseModel):
    """A JSON object of an answer; newer registries may add fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Audit(_Open):
    at: str
    sound: bool
    broken: tuple[str, ...] = ()


class _Quality(_Open):
    checks_passed: bool
    difficulty: float | None = Field(default=None, allow_inf_nan=False)
    baselines: tuple[Baseline, ...] = ()
    downloads: int = 0
    audit: _Audit | None = None


class _Listed(_Open):
    name: _Short
    version: _Short
    digest: str
    size: int
    key_id: str
    contract: int
    published_at: str
    yanked: str | None
    quality: _Quality
    description: str = ""
    license: str | None = None
    tags: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()


def offer_of(value: Any) -> Offer:
    """One version as a registry lists it.

    Raises:
        ValueError: the entry is invalid; the message does not quote it.
    """
    try:
        said = _Listed.model_validate(value)
        audit = said.quality.audit
        return Offer(
            release=Release(PackageName.parse(said.name), Version.parse(said.version)),
            digest=said.digest,
            size=said.size,
            key_id=said.key_id,
            yanked=said.yanked,
            checks_passed=said.quality.checks_passed,
            description=said.description,
            published_at=said.published_at,
            contract=said.contract,
            licence=said.license,
            tags=said.tags,
            splits=said.splits,
            baselines=said.quality.baselines,
            difficulty=said.quality.difficulty,
            downloads=said.quality.downloads,
            audit=None if audit is None else OfferedAudit(at=audit.at, sound=audit.sound, broken=audit.broken),
        )
    except ValidationError as error:
        raise ValueError(invalid_fields(error, "a version")) from None
    except NameRefused as error:
        raise ValueError(str(error)) from None


def offers_of(package: PackageName, values: Iterable[Any]) -> list[Offer]:
    """All versions of one package, the highest first.

    Raises:
        ValueError: a version is invalid, listed twice, or of another package.
    """
    found = dict[Version, Offer]()
    for value in values:
        offer = offer_of(value)
        if offer.release.package != package:
            raise ValueError(f"{package} was asked for, and it speaks of {offer.release.package}")
        if offer.release.version in found:
            raise ValueError(f"it tells of {offer.release} twice")
        found[offer.release.version] = offer
    return sorted(found.values(), key=lambda offer: offer.release.version, reverse=True)


def last_lines(content: bytes) -> list[Mapping[str, Any]]:
    """The last line for each version in a log file; an incomplete line at the end is ignored.

    Raises:
        ValueError: a complete line is invalid.
    """
    *lines, _ = content.split(b"\n")
    found = dict[tuple[str, str], Mapping[str, Any]]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(line) > LONGEST_LINE:
            raise ValueError(f"line {number} has {len(line):,} bytes; {LONGEST_LINE:,} are the most")
        said = _object(line)
        if said is None or not (isinstance(said.get("name"), str) and isinstance(said.get("version"), str)):
            raise ValueError(f"line {number} tells of no version")
        found[(said["name"], said["version"])] = said
        if len(found) > MOST_VERSIONS:
            raise ValueError(f"it tells of more than {MOST_VERSIONS:,} versions")
    return list(found.values())


def latest_of(lines: Iterable[Mapping[str, Any]]) -> list[Offer]:
    """The highest version of each package that is not yanked; only these versions are validated.

    Raises:
        ValueError: a version is invalid.
    """
    found = dict[str, tuple[Version, Mapping[str, Any]]]()
    for said in lines:
        if said.get("yanked") is not None:
            continue
        try:
            version = Version.parse(said["version"])
        except NameRefused as error:
            raise ValueError(str(error)) from None
        other = found.get(said["name"])
        if other is None or other[0] < version:
            found[said["name"]] = version, said
    return [offer_of(said) for _, said in found.values()]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        said: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], said) if isinstance(said, dict) else None
