"""Receipts as files: made of a run and signed, written, and read again."""

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from rollouthub.errors import ConfigError, UsageError, invalid_fields
from rollouthub.store import RunReader
from rollouthub.store.run_directories import RECEIPT_SUFFIX as SUFFIX
from rollouthub.text import plain_name
from rollouthub_registry.receipt.evidence import RunReading, read_run
from rollouthub_registry.receipt.model_files import ModelFolder
from rollouthub_registry.receipt.statement import ModelFiles, Receipt, ReceiptStatement
from rollouthub_registry.trust.keys import Key, PublicKey
from rollouthub_registry.trust.signatures import open_payload, parse_envelope, sign_payload
from rollouthub_registry.trust.trust_error import SignatureRefused

MOST_BYTES = 8_100_000
"""Most bytes of a receipt's file."""


class NotAttestable(UsageError):
    """The run is not one that a receipt is made of without being asked for it."""


@dataclass(frozen=True)
class SignedReceipt:
    """A receipt whose signature holds, and the key that made it; whose key it is, is not checked."""

    statement: ReceiptStatement
    key: PublicKey

    @property
    def receipt(self) -> Receipt:
        """What is stated about the run."""
        return self.statement.predicate


def make_receipt(
    reader: RunReader, key: Key, *, weights: ModelFolder | None = None, takes_incomplete: bool = False
) -> tuple[bytes, Receipt]:
    """Make a receipt of a run and sign it; returns the file's bytes, and what they state.

    Raises:
        NotAttestable: rollouts are missing, and `takes_incomplete` is off; or the weights are of no model of the run.
        RunDirectoryError: the run is being written, damaged, or too large for a receipt.
    """
    reading = read_run(reader)
    if not takes_incomplete:
        _require_complete(reader, reading)
    receipt = Receipt(
        run=reading.facts,
        model_files=None if weights is None else _named_files(reading, weights),
        signed_at=datetime.now(UTC),
        hub_version=version("rollouthub"),
    )
    payload = ReceiptStatement.of(receipt).model_dump_json().encode()
    try:
        content = sign_payload(payload, key).model_dump_json().encode() + b"\n"
    except ValidationError as error:
        raise NotAttestable(f"the run in {reader.directory} makes a receipt of more than 6 MB") from error
    open_receipt(content)  # as everyone will
    return content, receipt


def _require_complete(reader: RunReader, reading: RunReading) -> None:
    """Refuse a run in which rollouts are missing: the receipt of it would let a dropped failure look like a plan."""
    counts, directory = reading.facts.counts, reader.directory
    why = None
    if counts.missing:
        why = f"{counts.missing:,} of {counts.planned:,} planned rollouts have no record"
    elif counts.waiting:
        why = f"{counts.waiting:,} rollouts wait for their group's verdict"
    elif reading.facts.status != "finished":
        why = f"it is {reading.facts.status}"
    if why is not None:
        raise NotAttestable(
            f"the run in {directory} is not complete: {why}; go on with `hub run --resume -o {directory}`, or attest "
            "it with --incomplete, which the receipt says"
        )
    if not counts.attempts:
        raise NotAttestable(f"the run in {directory} holds no rollout, so there is nothing to attest")


def _named_files(reading: RunReading, weights: ModelFolder) -> ModelFiles:
    models = [model.name for model in reading.facts.models if model.role == "player"]
    if len(models) != 1:
        named = ", ".join(map(plain_name, models)) or "none"
        raise NotAttestable(f"--weights names the files of one model, and {len(models)} played in this run ({named})")
    return ModelFiles(model=models[0], weights=weights.weights, tokenizer=weights.tokenizer, files=len(weights.files))


def open_receipt(content: bytes) -> SignedReceipt:
    """Check a receipt's signature by the key that it carries, and parse what it states.

    Raises:
        SignatureRefused: a byte was changed, or it is no receipt of the hub.
    """
    envelope = parse_envelope(content)
    if envelope.model_dump_json().encode() + b"\n" != content:
        raise SignatureRefused("the file is not byte for byte as `hub attest` wrote it; take the original")
    payload, key = open_payload(envelope)
    try:
        statement = ReceiptStatement.model_validate_json(payload)
    except ValidationError as error:
        raise SignatureRefused(f"what is signed is no receipt of a run: {invalid_fields(error)}") from error
    if not statement.speaks_of_its_run:
        raise SignatureRefused("the subject that is signed is another run than the one that is described")
    return SignedReceipt(statement, key)


def read_receipt(file: Path) -> bytes:
    """The bytes of a receipt's file; they may be anybody's.

    Raises:
        ConfigError: there is no such file, or it is larger than any receipt.
    """
    shown = plain_name(str(file))
    try:
        with open(file, "rb", opener=lambda path, _: os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as source:
            found = os.fstat(source.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{shown} is no file; name the receipt that `hub attest` wrote")
            content = source.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"there is no receipt {shown!r}; `hub attest RUN` writes one") from None
    except IsADirectoryError:
        raise ConfigError(f"{shown} is a folder; name the receipt, such as {shown}{SUFFIX}") from None
    except OSError as error:
        raise ConfigError(f"the receipt {shown} cannot be read: {error.strerror or error}") from error
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{shown} has more than {MOST_BYTES:,} bytes, so it is no receipt")
    return content


def default_receipt(run: Path) -> Path:
    """Where the receipt of a run is written by default: beside its directory."""
    resolved = run.resolve()
    return resolved.with_name(resolved.name + SUFFIX) if run.name in ("", "..") else run.with_name(run.name + SUFFIX)


def default_run(file: Path) -> Path | None:
    """The run's directory that a receipt lies beside, or in; None where none is."""
    beside = file.with_name(file.name.removesuffix(SUFFIX)) if file.name.endswith(SUFFIX) else None
    places = (beside, file.parent)
    return next((place for place in places if place is not None and (place / "run.db").is_file()), None)
