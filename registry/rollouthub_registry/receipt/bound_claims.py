"""Compares what a receipt states with what is computed from the run's directory again: everything that is signed."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any, cast

from rollouthub.rollout import Outcome
from rollouthub.text import plain_name
from rollouthub_registry.receipt.canonical import FORM
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import RunReading
from rollouthub_registry.receipt.receipt_file import SignedReceipt
from rollouthub_registry.receipt.statement import RunFacts

_SHOWN_ID = 16
"""Hexadecimal digits of a key's id in a sentence."""
_COMPARED = {
    "environments": "environments, by name, version and digests of code, bundle and dependencies",
    "agents": "agents, by name, version and configuration",
    "models": "models, by name and number of answers",
    "images": "container images",
    "tools": "tool lists",
    "files": "hub.lock, run.toml and resolved.json",
}
"""Field of the facts → what is compared."""
_SETTINGS = ("settings", "machines", "sampling", "seed", "hub_version", "run_schema", "resumptions")
_ENDING = ("status", "stopped", "created_at", "finished_at")


def signature_claim(signed: SignedReceipt, owner: str | None) -> Claim:
    """The claim that a key made the receipt; `owner` says whose key it is here, None where nobody knows."""
    key, receipt = signed.key.id, signed.receipt
    known = "whose key that is, nothing here says" if owner is None else f"the key is {owner}"
    when = receipt.signed_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    said = f"key {key[:_SHOWN_ID]}… signed every byte of this receipt, by its own clock on {when}; {known}"
    return Claim("signature", "proven", said)


def run_claim(signed: SignedReceipt, facts: RunFacts, directory: str) -> Claim:
    """The claim that the receipt is of this run, and not of another."""
    stated = signed.receipt.run
    if stated.run_id != facts.run_id:
        said = (
            f"the receipt is of run {plain_name(stated.run_id)}, and {directory} holds run {plain_name(facts.run_id)}"
        )
        return Claim("run", "refuted", said)
    return Claim("run", "proven", f"the receipt is of the run in {directory}, {plain_name(facts.run_id)}")


def root_claim(signed: SignedReceipt, reading: RunReading) -> Claim:
    """The claim that the run's rollouts are the ones that were signed, all of them and no other."""
    stated, found = signed.receipt.run.tree, reading.facts.tree
    if stated.form != FORM:
        said = f"its rollouts are in the form {plain_name(stated.form)}, which this hub does not know; take a newer one"
        return Claim("root", "not_provable", said)
    if stated.root == found.root and stated.leaves == found.leaves:
        attempts = counted(found.leaves, "attempt")
        said = f"the root over {attempts} equals the signed one: none was changed, added or left out"
        return Claim("root", "proven", said, found.leaves)
    problems = Problems()
    if stated.index is not None:
        for name in sorted(stated.index.keys() | reading.leaves.keys()):
            there, here = stated.index.get(name), reading.leaves.get(name)
            if there is None:
                problems.add(f"{name} is in the run, and was not signed")
            elif here is None:
                problems.add(f"{name} was signed, and is not in the run")
            elif here.hex()[: len(there)] != there:
                problems.add(f"{name} is not the record that was signed")
    said = (
        f"the root over {counted(found.leaves, 'attempt')} is not the signed one over {stated.leaves:,}"
        f"{f'; {problems.count:,} differ' if problems else ''}"
    )
    return problems.refutes("root", said, found.leaves)


def fact_claims(signed: SignedReceipt, facts: RunFacts) -> Iterator[Claim]:
    """The claims about all other facts that are signed, one for each kind."""
    stated = signed.receipt.run
    yield _equal("counts", ("counts",), stated, facts, _counted(facts))
    yield _equal("settings", (*_SETTINGS, *_ENDING), stated, facts, "settings, seed, versions, beginning and end")
    for name, what in _COMPARED.items():
        yield _equal(name, (name,), stated, facts, what)


def complete_claim(facts: RunFacts) -> Claim:
    """The claim that every rollout that was planned has a record."""
    counts = facts.counts
    if counts.planned is None:
        said = "how many rollouts were to be played is written nowhere, so none that is missing would show"
        return Claim("complete", "not_provable", said)
    missing = counts.missing + counts.waiting
    if missing:
        said = (
            f"{counts.missing:,} of {counts.planned:,} planned rollouts have no record and {counts.waiting:,} wait for "
            f"a verdict (the run is {plain_name(facts.status)}): what became of them is not known"
        )
        return Claim("complete", "not_provable", said, counts.recorded)
    if counts.recorded > counts.planned:
        said = f"{counts.recorded:,} samples are recorded, and {counts.planned:,} were planned"
        return Claim("complete", "refuted", said, counts.recorded)
    said = f"all {counted(counts.planned, 'planned rollout')} are recorded, {_failures(facts)}"
    return Claim("complete", "consistent", said, counts.recorded)


def _failures(facts: RunFacts) -> str:
    counts = facts.counts
    failed = counts.recorded - counts.outcomes.get(Outcome.SCORED, 0)
    return f"{counted(failed, 'failure')} among them"


def _counted(facts: RunFacts) -> str:
    counts = facts.counts
    mean = "no reward" if counts.mean_reward is None else f"mean reward {counts.mean_reward:.4f}"
    outcomes = ", ".join(f"{number:,} {outcome.value}" for outcome, number in counts.outcomes.items())
    return f"planned and recorded rollouts, outcomes and rewards ({outcomes}; {mean})"


def _equal(name: str, fields: tuple[str, ...], stated: RunFacts, found: RunFacts, what: str) -> Claim:
    """Whether these fields are as they were signed."""
    problems = Problems()
    for field in fields:
        there, here = _plain(getattr(stated, field)), _plain(getattr(found, field))
        if there == here:
            continue
        if isinstance(there, dict) and isinstance(here, dict):
            was, now = cast(dict[str, Any], there), cast(dict[str, Any], here)
            for key in sorted(was.keys() | now.keys()):
                if was.get(key) != now.get(key):
                    problems.add(f"{field}: {key} was {was.get(key)}, and is {now.get(key)}")
        else:
            problems.add(f"{field}: signed {there}, found {here}")
    if problems:
        return problems.refutes(name, f"not as signed: {what}", found.counts.attempts)
    return Claim(name, "proven", f"as signed: {what}", found.counts.attempts)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in cast(tuple[Any, ...], value)]
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value
