"""Verifies a receipt against a run's directory: signature, root, facts, tokens, times and players."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rollouthub.errors import RunDirectoryError, StoreError, UsageError
from rollouthub.rollout import Rollout
from rollouthub.store import AttemptSummary, RunReader, open_run
from rollouthub.store.run_directories import DATABASE
from rollouthub.text import one_line, plain_name
from rollouthub_registry.receipt.bound_claims import complete_claim, fact_claims, root_claim, run_claim, signature_claim
from rollouthub_registry.receipt.claim import Claim, in_order
from rollouthub_registry.receipt.evidence import RunReading, read_run
from rollouthub_registry.receipt.model_files import ModelFolder
from rollouthub_registry.receipt.plan_claims import PlanCheck, SamplingCheck
from rollouthub_registry.receipt.player_claims import PlayerCheck
from rollouthub_registry.receipt.receipt_file import SignedReceipt, open_receipt
from rollouthub_registry.receipt.statement import RunFacts
from rollouthub_registry.receipt.table_claims import KeptFileCheck, TableCheck
from rollouthub_registry.receipt.time_claims import TimeCheck
from rollouthub_registry.receipt.token_claims import TokenCheck
from rollouthub_registry.receipt.tokenizer_claims import MockCheck, TokenizerCheck, vocabulary_of
from rollouthub_registry.trust.trust_error import SignatureRefused

MOCK = "mock/"


class RecordCheck(Protocol):
    """Looks at every attempt of a run, and says afterwards what it found."""

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Look at one record and its summary row."""
        ...

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        ...


@dataclass
class Verification:
    """What was found of one receipt."""

    signed: SignedReceipt | None = None
    """The receipt; None if its signature does not hold, so that nothing in it counts."""
    reading: RunReading | None = None
    """The run; None if it cannot be read, or is another than the receipt's."""
    claims: list[Claim] = field(default_factory=list[Claim])

    @property
    def is_refuted(self) -> bool:
        """Whether any claim is refuted."""
        return any(claim.verdict == "refuted" for claim in self.claims)

    @property
    def model(self) -> str | None:
        """The one model whose files may be named: that of the receipt's files, or else the only one that played."""
        return None if self.signed is None else _named_model(self.signed)

    @property
    def in_order(self) -> list[Claim]:
        """The claims, what is refuted first."""
        return in_order(self.claims)


def verify_receipt(
    content: bytes,
    directory: Path,
    owners: Mapping[str, str],
    *,
    signer: str | None = None,
    weights: ModelFolder | None = None,
) -> Verification:
    """Verify a receipt without running any code of the run's: in seconds for a thousand rollouts, and offline.

    `owners` says whose keys are known here, by id; `signer` is the only key that may have signed.

    Raises:
        RunDirectoryError: the directory holds no run that can be read.
        ConfigError: the tokenizer of `weights` cannot be read.
    """
    found = Verification()
    try:
        signed = found.signed = open_receipt(content)
    except SignatureRefused as error:
        found.claims.append(Claim("signature", "refuted", f"nothing in this receipt counts: {error}"))
        return found
    if signer is not None and signed.key.id != signer:
        said = f"key {signed.key.id} signed it, and {signer} was to have"
        found.claims.append(Claim("signature", "refuted", said))
    else:
        found.claims.append(signature_claim(signed, owners.get(signed.key.id)))
    try:
        _verify_run(found, signed, directory, weights)
    except (RunDirectoryError, StoreError) as error:
        if not (directory / DATABASE).is_file():
            raise
        said = f"the records cannot be read, so they are not the signed ones: {one_line(str(error))}"
        found.claims.append(Claim("root", "refuted", said))
    return found


def _verify_run(found: Verification, signed: SignedReceipt, directory: Path, weights: ModelFolder | None) -> None:
    """Compare a run with what is signed; of another run nothing is compared but its rollouts."""
    with open_run(directory) as reader:
        checks = _checks(reader, signed, weights)
        reading = read_run(reader, checks)
    found.claims.append(run_claim(signed, reading.facts, plain_name(str(directory))))
    found.claims.append(root_claim(signed, reading))
    if reading.facts.run_id != signed.receipt.run.run_id:
        return
    found.reading = reading
    found.claims += fact_claims(signed, reading.facts)
    found.claims.append(complete_claim(reading.facts))
    for check in checks:
        found.claims += check.claims()
    if weights is not None:
        found.claims.append(_weights_claim(signed, weights))
    found.claims += _beyond_proof(reading.facts)


def _checks(reader: RunReader, signed: SignedReceipt, weights: ModelFolder | None) -> Sequence[RecordCheck]:
    info = reader.info
    checks: list[RecordCheck] = [
        TableCheck(),
        KeptFileCheck(reader),
        PlanCheck(info),
        PlayerCheck(),
        SamplingCheck(info),
        TokenCheck(),
        MockCheck(),
        TimeCheck(info),
    ]
    model = _named_model(signed)
    if weights is not None and weights.tokenizer is not None and model is not None:
        checks.append(TokenizerCheck(model, vocabulary_of(weights.path)))
    return checks


def _named_model(signed: SignedReceipt) -> str | None:
    named = signed.receipt.model_files
    players = [model.name for model in signed.receipt.run.models if model.role == "player"]
    return named.model if named is not None else players[0] if len(players) == 1 else None


def _weights_claim(signed: SignedReceipt, weights: ModelFolder) -> Claim:
    """Whether the files that are given are the ones that the signer named."""
    named, folder = signed.receipt.model_files, plain_name(str(weights.path))
    if named is None:
        said = f"the receipt names no files of a model, so that those in {folder} played is the caller's word"
        return Claim("model_files", "not_provable", said)
    if (named.weights, named.tokenizer) != (weights.weights, weights.tokenizer):
        said = f"the files in {folder} are {weights.weights}, and the receipt names {named.weights}"
        return Claim("model_files", "refuted", said)
    return Claim(
        "model_files", "consistent", f"the files in {folder} are those that the receipt names: {weights.weights}"
    )


def _beyond_proof(facts: RunFacts) -> Iterator[Claim]:
    """What no receipt can show."""
    players = [plain_name(model.name) for model in facts.models if model.role == "player"]
    answered = [name for name in players if not name.startswith(MOCK)]
    if answered:
        named = ", ".join(answered[:5])
        said = f"which weights answered behind the name {named}: a server says nothing that proves it"
        yield Claim("which_weights", "not_provable", said)
    for said, name in (
        ("that the clocks of signer and run were right: times are their own word", "clocks"),
        ("that no other run was made before, and this one chosen: a receipt speaks of one run", "choice_of_run"),
        ("that records were written by the hub as it played, and not by a program of the signer's", "authorship"),
    ):
        yield Claim(name, "not_provable", said)


def key_id(text: str) -> str:
    """A key's id as `--signer` takes it.

    Raises:
        UsageError: it is no id of a key.
    """
    if len(text) != 64 or text.strip("0123456789abcdef"):
        raise UsageError(f"{plain_name(text)!r} is no id of a key; it is 64 of 0-9 and a-f, as `hub attest` shows it")
    return text
