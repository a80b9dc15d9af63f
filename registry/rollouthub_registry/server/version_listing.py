"""One published version as the index stores it and clients see it."""

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pydantic import JsonValue

from rollouthub_registry.bundle.attestation import AuditSummary, Envelope, Statement
from rollouthub_registry.names import PackageName, Release, Version

_OFFICIAL = "io.modelcontextprotocol.registry/official"
_OURS = "envhub/registry"
BUNDLE_HERE = "bundle"
"""Placeholder for a bundle's URL in a stored `server.json`, as a directory does not know its server's address."""


@dataclass(frozen=True)
class Facts:
    """The facts of a version's statement that are shown and searched."""

    description: str
    licence: str
    authors: tuple[str, ...]
    homepage: str
    repository: str
    tags: tuple[str, ...]
    splits: tuple[str, ...]
    digest: str
    size: int
    """Size of the bundle in bytes."""
    key_id: str
    public_key: str
    tools_digest: str | None
    contract: int
    hub_version: str
    created_at: str
    checks_passed: bool
    baselines: tuple[tuple[str, float, int, float | None, float | None], ...]
    """For each baseline: model, mean reward, number of samples, and the mean's interval; the best first."""
    kind: str
    """How it is made: `python`, `command`, `image` or `url`."""
    needs: tuple[str, ...]
    """What it needs to play: `sandbox`, `network`, `secrets`."""
    audit: dict[str, Any] | None
    """The latest audit (see `audit_facts`): its publisher's, or that of who keeps the registry; None without one."""
    server: dict[str, Any]
    """Its MCP `server.json`, with BUNDLE_HERE as the bundle's URL."""

    @cached_property
    def text(self) -> str:
        """The facts as JSON, for a row of the index."""
        return json.dumps({name: getattr(self, name) for name in _FIELDS}, ensure_ascii=False, separators=(",", ":"))

    @property
    def audit_state(self) -> str:
        """`sound`, `found` something, or `none` without an audit."""
        return "none" if self.audit is None else "sound" if self.audit["sound"] else "found"

    @property
    def difficulty(self) -> float | None:
        """1 minus the mean reward of the best baseline, clipped to [0, 1]; None without a baseline."""
        return 1 - min(1.0, max(0.0, self.baselines[0][1])) if self.baselines else None

    @property
    def quality(self) -> float:
        """A score from 0 to 1 that decides between equally good matches of a search."""
        return (0.5 if self.checks_passed else 0.0) + (0.25 if self.baselines else 0.0)


_FIELDS = tuple(field.name for field in fields(Facts))


@dataclass(frozen=True)
class Listing:
    """One version and its state in the registry."""

    release: Release
    facts: Facts
    published_at: float
    updated_at: float
    yanked: str | None
    """Why it is yanked; None if it is not."""
    is_latest: bool = False
    downloads: int = 0
    """Downloads of all versions of the package."""

    def as_json(self) -> dict[str, Any]:
        """The version in the form of the hub's own API."""
        facts = self.facts
        return {
            "name": str(self.release.package),
            "version": str(self.release.version),
            "description": facts.description,
            "license": facts.licence or None,
            "authors": list(facts.authors),
            "homepage": facts.homepage or None,
            "repository": facts.repository or None,
            "tags": list(facts.tags),
            "splits": list(facts.splits),
            "kind": facts.kind,
            "needs": list(facts.needs),
            "digest": facts.digest,
            "size": facts.size,
            "key_id": facts.key_id,
            "tools_digest": facts.tools_digest,
            "contract": facts.contract,
            "published_at": moment(self.published_at),
            "updated_at": moment(self.updated_at),
            "is_latest": self.is_latest,
            "yanked": self.yanked,
            "quality": {
                "checks_passed": facts.checks_passed,
                "audit": facts.audit,
                "difficulty": facts.difficulty,
                "baselines": [
                    {"model": model, "mean_reward": mean, "samples": samples}
                    | ({} if low is None else {"low": low, "high": high})
                    for model, mean, samples, low, high in facts.baselines
                ],
                "downloads": self.downloads,
            },
        }

    def as_server(self, url: str) -> dict[str, Any]:
        """The version in the form of the MCP registry's API (`ServerResponse`); `url` is the registry's address."""
        official: dict[str, Any] = {
            "status": "active" if self.yanked is None else "deleted",
            "statusChangedAt": moment(self.published_at if self.yanked is None else self.updated_at),
            "publishedAt": moment(self.published_at),
            "updatedAt": moment(self.updated_at),
            "isLatest": self.is_latest,
        }
        if self.yanked:
            official["statusMessage"] = self.yanked[:500]
        ours = {"key_id": self.facts.key_id, "checks_passed": self.facts.checks_passed}
        return {"server": self._server(url), "_meta": {_OFFICIAL: official, _OURS: ours}}

    def _server(self, url: str) -> dict[str, Any]:
        """The `server.json` with this registry's URL of the bundle."""
        server = self.facts.server
        release = self.release
        here = f"{url}/envhub/v1/packages/{release.package}/{release.version}/bundle"
        packages: list[dict[str, Any]] = server.get("packages", [])
        if not packages:
            return server
        moved = [each | {"identifier": here} if each["identifier"] == BUNDLE_HERE else each for each in packages]
        return server | {"packages": moved}


def facts_of(envelope: Envelope, statement: Statement, size: int, server: dict[str, Any]) -> Facts:
    """The facts of a version to show and search; `server` is its `server.json`."""
    said, manifest = statement.predicate, statement.predicate.manifest
    baselines = sorted(said.baselines, key=lambda baseline: (-baseline.mean_reward, baseline.model))
    tasks = manifest.get("tasks")
    signature = envelope.signatures[0]
    return Facts(
        description=_text(manifest.get("description")),
        licence=_text(manifest.get("license")),
        authors=_words(manifest.get("authors")),
        homepage=_text(manifest.get("homepage")),
        repository=_text(manifest.get("repository")),
        tags=_words(manifest.get("tags")),
        splits=tuple(tasks) if isinstance(tasks, dict) else (),
        digest=statement.digest,
        size=size,
        key_id=signature.keyid,
        public_key=signature.public_key,
        tools_digest=said.tools_digest,
        contract=said.contract,
        hub_version=said.hub_version,
        created_at=said.created_at.astimezone(UTC).isoformat(timespec="seconds"),
        checks_passed=said.check.passed,
        baselines=tuple((each.model, each.mean_reward, each.samples, each.low, each.high) for each in baselines),
        kind=_kind(manifest),
        needs=_needs(manifest),
        audit=None if said.audit is None else audit_facts(said.audit, signature.keyid),
        server=server,
    )


def audit_facts(audit: AuditSummary, key_id: str) -> dict[str, Any]:
    """What is shown of an audit: when, by which key, of how many tasks, and which classes broke."""
    return {
        "at": audit.at.astimezone(UTC).isoformat(timespec="seconds"),
        "key_id": key_id,
        "sound": audit.is_sound,
        "tasks": audit.tasks,
        "defective": audit.defective,
        "tried": [each.defect for each in audit.classes if each.state != "not_tried"],
        "broken": list(audit.broken),
    }


def load_facts(text: str) -> Facts:
    """The facts stored in a row of the index."""
    held: dict[str, Any] = json.loads(text)
    for key in ("tags", "splits", "authors", "baselines", "needs"):
        held[key] = tuple(held[key])
    return Facts(**held)


def release_of(name: str, version: str) -> Release:
    """The release of a row; not validated again, since it was before it got into the index."""
    namespace, _, package = name.partition("/")
    return Release(PackageName(namespace, package), Version.parse(version))


def moment(seconds: float) -> str:
    """A time in the API's format: RFC 3339, UTC, with microseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _kind(manifest: dict[str, JsonValue]) -> str:
    server = manifest.get("server")
    if not isinstance(server, dict):
        return "python"
    return next((kind for kind in ("command", "image", "url") if server.get(kind)), "command")


def _needs(manifest: dict[str, JsonValue]) -> tuple[str, ...]:
    server, sandbox = manifest.get("server"), manifest.get("sandbox")
    of_server = server if isinstance(server, dict) else {}
    of_sandbox = sandbox if isinstance(sandbox, dict) else {}
    found = {
        "sandbox": bool(sandbox),
        "network": bool(manifest.get("network")) or of_sandbox.get("network", "none") != "none",
        "secrets": bool(manifest.get("secrets") or of_server.get("token_variable")),
    }
    return tuple(name for name, is_needed in found.items() if is_needed)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _words(value: JsonValue) -> tuple[str, ...]:
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()
