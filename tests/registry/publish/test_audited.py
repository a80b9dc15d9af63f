"""What `hub publish` finds by attacking and auditing, and what everyone can read of it."""

from functools import partial
from pathlib import Path

import pytest

from rollouthub.event_loop import run_async
from rollouthub_registry.audit.audit_run import chosen
from rollouthub_registry.audit.task_finding import ProbeResult, TaskAudit, TaskFinding
from rollouthub_registry.bundle.attestation import AuditSummary, audit_words
from rollouthub_registry.bundle.bundle import build_bundle
from rollouthub_registry.check.check_finding import Finding
from rollouthub_registry.check.defect_class import DEFECTS
from rollouthub_registry.check.thorough.attack import AttackResult, Vulnerability
from rollouthub_registry.check.thorough.attacks import ATTACKS
from rollouthub_registry.names import Release
from rollouthub_registry.publish.audited import Audited, attack_and_audit
from rollouthub_registry.publish.console import Silent
from rollouthub_registry.publish.gate import Passed, install_apart
from rollouthub_registry.publish.publication import PublishRequest, publish
from rollouthub_registry.publish.publish_error import ChecksFailed
from rollouthub_registry.publish.statement import signed_statement
from rollouthub_registry.publish.steps import Steps
from rollouthub_registry.server.directory_layout import Layout
from rollouthub_registry.trust.keys import Key
from rollouthub_registry.trust.signatures import open_envelope, parse_envelope
from tests.registry.publish.environments import QUICK, write_environment

TOLD = "the answer is 4711"
GUESSED = """\
import json, sys

answer = json.load(sys.stdin)["submission"]["answer"] or ""
print(json.dumps({"reward": float(len(answer) > 3), "passed": len(answer) > 3}))
"""
"""A verifier that pays any answer of four letters."""


def one_problem() -> Audited:
    attack = AttackResult("results", "L4", "", "broke", "1 thing got through", (Vulnerability(TOLD),))
    other = AttackResult("listings", "L6", "", "not_tried", "no shell")
    finding = TaskFinding(probe="null", defect="floor", says=TOLD)
    remark = TaskFinding(probe="network", defect="network", severity="remark", says=TOLD)
    results = (
        ProbeResult(probe="null", defect="floor", state="broke", findings=(finding,)),
        ProbeResult(probe="network", defect="network", state="broke", findings=(remark,)),
        ProbeResult(probe="oracle", defect="oracle", state="held"),
    )
    return Audited((attack, other), (TaskAudit(environment="e", split="test", task="1", digest="", results=results),))


def by_class(audit: AuditSummary) -> dict[str, str]:
    return {each.defect: each.state for each in audit.classes if each.state != "not_tried"}


def test_every_class_has_a_state_and_a_remark_breaks_none() -> None:
    quick = [Finding("isolation", "L9", "", "passed", ""), Finding("seeds", "flaky", "", "not_applicable", "")]
    said = one_problem().summary(quick)
    assert by_class(said) == {"L4": "broke", "floor": "broke", "network": "held", "oracle": "held", "L9": "held"}
    assert {each.defect for each in said.classes} == set(DEFECTS)
    assert not said.is_sound
    assert said.broken == ("L4", "floor")
    assert audit_words(said).startswith("found L4, floor in 5 classes tried on 1 tasks")


def test_what_was_found_is_told_to_the_publisher_and_published_by_class_alone() -> None:
    audited = one_problem()
    assert len(audited.problems) == 2
    assert all(TOLD in line for line in audited.problems)
    assert TOLD not in audited.summary().model_dump_json()


def test_a_problem_is_enough_for_a_refusal_that_names_it() -> None:
    assert Passed((), "", ()).is_good
    passed = Passed((), "", (), one_problem())
    assert not passed.is_good
    refused = ChecksFailed("lab/words@1.0.0", (), passed.audited.problems if passed.audited else ())
    assert "problems under attack and audit" in str(refused)
    assert len(refused.problems) == 2


def test_what_attacks_and_probes_find_refuses_it_and_its_class_is_signed_where_it_is_published_all_the_same(
    tmp_path: Path, home: dict[str, str]
) -> None:
    """With two probes and two attacks; the next two publish it whole."""
    bundle = build_bundle(write_environment(tmp_path / "words", {"verify.py": GUESSED}), tmp_path / "bundle")
    attacks = [attack for attack in ATTACKS if attack.name in ("listings", "verbs")]
    probing = partial(attack_and_audit, probes=chosen(("constants", "null"), ()), attacks=attacks)
    audited = run_async(probing, install_apart(bundle, tmp_path), QUICK)
    passed = Passed((), f"sha256:{'0' * 64}", (), audited)
    assert not passed.is_good
    assert any("constants (floor)" in problem for problem in audited.problems)
    signed = parse_envelope(signed_statement(bundle, passed, QUICK, (), Key.generate()))
    said = open_envelope(signed).statement.predicate
    assert not said.check.passed
    assert said.audit is not None
    assert by_class(said.audit) == {attacks[0].leak: "held", attacks[1].leak: "held", "floor": "broke"}


@pytest.mark.soak
def test_a_verifier_that_can_be_gamed_is_refused(tmp_path: Path, home: dict[str, str]) -> None:
    folder = write_environment(tmp_path / "words", {"verify.py": GUESSED})
    with pytest.raises(ChecksFailed, match="problems under attack and audit") as refused:
        publish(PublishRequest(folder, asked=QUICK, out=tmp_path / "out"), home, Steps(Silent()))
    assert any("constants (floor)" in problem for problem in refused.value.problems)
    assert not (tmp_path / "out").exists()


@pytest.mark.soak
def test_a_verifier_that_can_be_gamed_has_its_class_signed_where_it_is_published_all_the_same(
    tmp_path: Path, home: dict[str, str]
) -> None:
    folder, to = write_environment(tmp_path / "words", {"verify.py": GUESSED}), (tmp_path / "hub").as_uri()
    publish(PublishRequest(folder, to, QUICK, allows_failing_checks=True), home, Steps(Silent()))
    raw = Layout(tmp_path / "hub").statement(Release.parse("lab/words@1.0.0")).read_bytes()
    said = open_envelope(parse_envelope(raw)).statement.predicate
    assert said.audit is not None
    assert not said.check.passed
    assert by_class(said.audit)["floor"] == "broke"
    assert by_class(said.audit)["L5"] == "held"
