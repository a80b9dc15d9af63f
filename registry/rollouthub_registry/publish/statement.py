"""Makes the statement that a publisher signs about a bundle."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from rollouthub_registry.bundle.attestation import Baseline, CheckSummary, Predicate, Statement
from rollouthub_registry.bundle.bundle import Bundle
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.publish.gate import Passed
from rollouthub_registry.publish.published_checks import public_report
from rollouthub_registry.publish.published_tools import shown_tools
from rollouthub_registry.trust.keys import Key
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signatures import sign, verify


def signed_statement(
    bundle: Bundle, passed: Passed, asked: CheckRequest, baselines: Sequence[Baseline], key: Key
) -> bytes:
    """The envelope with a bundle's signed statement, as it is published."""
    predicate = Predicate(
        manifest=bundle.manifest.model_dump(mode="json"),
        tools_digest=passed.tools_digest,
        tools=shown_tools(passed.tools),
        check=CheckSummary(passed=passed.is_good, report=public_report(passed.findings, asked)),
        audit=None if passed.audited is None else passed.audited.summary(passed.findings),
        baselines=tuple(baselines),
        created_at=datetime.now(UTC),
        hub_version=version("rollouthub"),
        contract=bundle.manifest.contract,
    )
    envelope = sign(Statement.about(bundle.release, bundle.digest, predicate), key)
    verify(envelope, bundle.digest, bundle.release, Pins())  # as everyone will
    return envelope.model_dump_json().encode() + b"\n"
