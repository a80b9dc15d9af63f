"""Audits what a registry offers: each package's newest version, installed apart, one after the other.

In a registry that is a folder of this machine the result is signed and kept beside the version, where clients and pages
show it.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from rollouthub.errors import ConfigError, HubError, UnknownNameError
from rollouthub.event_loop import run_async
from rollouthub.text import one_line
from rollouthub_registry.audit.probe import Probe
from rollouthub_registry.bundle.attestation import AuditSummary, ClassResult
from rollouthub_registry.bundle.bundle import open_bundle
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.thorough.attack import Attack
from rollouthub_registry.client.offer import Offer
from rollouthub_registry.client.source import Source, open_source
from rollouthub_registry.client.static_registry import Folder
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.publish.audited import attack_and_audit
from rollouthub_registry.publish.gate import install_apart
from rollouthub_registry.trust.keys import Key
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signatures import open_envelope, verify
from rollouthub_registry.trust.signed_audits import open_audit, sign_audit
from rollouthub_registry.trust.trust_error import SignatureRefused

MOST_PACKAGES = 10_000
_LISTED = 100
"""Most packages that a server lists in one answer."""


@dataclass(frozen=True)
class RegistryAuditRequest:
    """What to audit in a registry, and how."""

    url: str
    packages: tuple[str, ...] = ()
    """Only these packages; empty for all."""
    asked: CheckRequest = field(default_factory=CheckRequest)
    probes: Sequence[Probe] = ()
    attacks: Sequence[Attack] = ()
    is_whole: bool = True
    """Whether every probe, cheat and attack is tried; what is found by a part is added to the audit before that the
    same key signed."""
    seconds: float = 1800.0
    """Most seconds for one package, its installation included."""


@dataclass(frozen=True)
class PackageAudit:
    """What was found in one package."""

    release: Release
    audit: AuditSummary | None = None
    problems: tuple[str, ...] = ()
    """What broke, a line each."""
    error: str | None = None
    """Why it could not be audited; None if it was."""
    is_kept: bool = False
    """Whether the result was signed and kept in the registry."""

    def as_json(self) -> dict[str, Any]:
        """The package as `hub registry audit --json` prints it."""
        return {
            "name": str(self.release.package),
            "version": str(self.release.version),
            "audit": None if self.audit is None else self.audit.model_dump(mode="json"),
            "problems": list(self.problems),
            "error": self.error,
            "kept": self.is_kept,
        }


def audit_registry(
    request: RegistryAuditRequest, key: Key | None, on_package: Callable[[str], None]
) -> Iterator[PackageAudit]:
    """Audit the packages one after the other; `on_package` is told what is done. With a key, results are kept.

    Raises:
        ConfigError: there is no registry, or nothing in it.
        UnknownNameError: it has no such package.
        RegistryFault: it did not answer.
    """
    for offer in run_async(_offers, request):
        on_package(f"{offer.release}: installing it apart")
        with tempfile.TemporaryDirectory(prefix="rollouthub-audit-", ignore_cleanup_errors=True) as scratch:
            try:
                yield _audited(request, offer, Path(scratch), key, on_package)
            except HubError as error:
                yield PackageAudit(offer.release, error=one_line(str(error), 500))


async def _offers(request: RegistryAuditRequest) -> list[Offer]:
    """The newest version of each package that is not yanked."""
    async with open_source(request.url) as source:
        if request.packages:
            return [await _newest(source, PackageName.parse(name)) for name in request.packages]
        most = MOST_PACKAGES if isinstance(source, Folder) else _LISTED
        found = [hit.offer for hit in await source.search("", most)]
    if not found:
        raise ConfigError(f"nothing is published at {request.url}")
    return sorted((offer for offer in found if offer.yanked is None), key=lambda offer: str(offer.release.package))


async def _newest(source: Source, package: PackageName) -> Offer:
    offers = [offer for offer in await source.offers(package) if offer.yanked is None]
    if not offers:
        raise UnknownNameError(f"package at {source.url} with a version that is not yanked", str(package), [])
    return offers[0]


def _audited(
    request: RegistryAuditRequest, offer: Offer, scratch: Path, key: Key | None, note: Callable[[str], None]
) -> PackageAudit:
    release = offer.release
    before, bundle_path = run_async(_fetched, request.url, offer, scratch, key)
    bundle = open_bundle(bundle_path)
    if bundle.digest != offer.digest:
        raise ConfigError(f"{release}: the registry tells of {offer.digest} and sends {bundle.digest}")
    installation = install_apart(bundle, scratch)

    async def bounded() -> Any:
        with anyio.fail_after(request.seconds):
            return await attack_and_audit(
                installation,
                request.asked,
                lambda said: note(f"{release}: {said}"),
                probes=request.probes,
                attacks=request.attacks,
            )

    try:
        found = run_async(bounded)
    except TimeoutError:
        raise ConfigError(f"{release} was not audited within {request.seconds:g} s, and was ended") from None
    audit = found.summary()
    if not request.is_whole and before is not None:
        audit = added(before, audit)
    is_kept = key is not None
    if key is not None:
        run_async(_keep, request.url, release, sign_audit(release, offer.digest, audit, key))
    return PackageAudit(release, audit, tuple(found.problems), is_kept=is_kept)


async def _fetched(url: str, offer: Offer, scratch: Path, key: Key | None) -> tuple[AuditSummary | None, Path]:
    """The latest audit that this key signed, and the bundle, which is what its publisher signed."""
    async with open_source(url) as source:
        fetched = await source.fetch(offer.release, scratch)
        statement = verify(fetched.envelope, offer.digest, offer.release, Pins(), is_exact=True)
        assert open_envelope(fetched.envelope).statement == statement
        kept = await source.audit(offer.release)
    return _own_audit(kept, offer, key), fetched.bundle


def _own_audit(kept: bytes | None, offer: Offer, key: Key | None) -> AuditSummary | None:
    """An audit to add to: nothing that another key says is signed again with this one."""
    if kept is None or key is None:
        return None
    try:
        found = open_audit(kept, offer.release, offer.digest)
    except SignatureRefused:  # what is not one any more is replaced
        return None
    return found.audit if found.key_id == key.id else None


async def _keep(url: str, release: Release, envelope: bytes) -> None:
    async with open_source(url) as source:
        assert isinstance(source, Folder)
        await source.note_audit(release, envelope)


def added(before: AuditSummary, now: AuditSummary) -> AuditSummary:
    """An audit with what a part of it found later: what was found before stands until a whole audit."""
    later = {each.defect: each for each in now.classes}
    classes: list[ClassResult] = []
    for each in before.classes:
        new = later.pop(each.defect, None)
        if new is None or new.state == "not_tried":
            classes.append(each)
            continue
        state = "broke" if "broke" in (each.state, new.state) else "held"
        classes.append(
            ClassResult(defect=each.defect, state=state, tried=each.tried + new.tried, broke=each.broke + new.broke)
        )
    tasks, defective = max(before.tasks, now.tasks), max(before.defective, now.defective)
    return AuditSummary(at=now.at, tasks=tasks, defective=defective, classes=(*classes, *later.values()))
