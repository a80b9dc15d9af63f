"""Signs statements and verifies envelopes: DSSE with Ed25519.

`cryptography` signs; the only other part of DSSE is the encoding of the signed bytes, `pre_authentication`. A test
checks it against securesystemslib, the reference implementation, in both directions.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rollouthub.errors import invalid_fields
from rollouthub_registry.bundle.attestation import PAYLOAD_TYPE, Envelope, Signature, Statement
from rollouthub_registry.names import NameRefused, Release
from rollouthub_registry.trust.keys import Key, PublicKey
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.trust_error import SignatureRefused


@dataclass(frozen=True)
class Signed:
    """A statement and the key that signed it; whether the key is trusted is not checked yet."""

    statement: Statement
    key: PublicKey


def sign(statement: Statement, key: Key) -> Envelope:
    """Sign a statement; returns the envelope with the signature."""
    return sign_payload(statement.model_dump_json().encode(), key)


def sign_payload(payload: bytes, key: Key) -> Envelope:
    """Sign the JSON of an in-toto statement of any predicate; returns the envelope with the signature."""
    signature = {
        "keyid": key.id,
        "sig": base64.b64encode(key.sign(pre_authentication(PAYLOAD_TYPE, payload))).decode(),
        "publicKey": key.public.text,
    }
    return Envelope.model_validate(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": (Signature.model_validate(signature),),
        }
    )


def parse_envelope(content: bytes) -> Envelope:
    """Parse the JSON of an envelope.

    Raises:
        SignatureRefused: it is not an envelope in the hub's format.
    """
    try:
        return Envelope.model_validate_json(content)
    except ValidationError as error:
        raise SignatureRefused(f"it is no envelope of a signed statement: {invalid_fields(error)}") from error


def open_payload(envelope: Envelope) -> tuple[bytes, PublicKey]:
    """Check an envelope's signature by the key that it carries; returns the signed bytes and that key.

    Raises:
        SignatureRefused: the envelope is damaged, or the signature is not of that key over these bytes.
    """
    signature = envelope.signatures[0]
    try:
        key = PublicKey(_decoded(signature.public_key))
        payload, signed = _decoded(envelope.payload), _decoded(signature.sig)
    except (binascii.Error, ValueError) as error:
        raise SignatureRefused(f"the envelope is damaged: {error}") from error
    if key.id != signature.keyid:
        raise SignatureRefused(f"the envelope names the key {signature.keyid}, but carries {key.id}")
    if not key.verifies(signed, pre_authentication(envelope.payload_type, payload)):
        raise SignatureRefused(f"the signature is not of the key {key.id}: statement or signature was changed")
    _refuse_repeated_names(payload)
    return payload, key


def _refuse_repeated_names(payload: bytes) -> None:
    """Refuse JSON with two values under one name, of which other programs may read the other one.

    Raises:
        SignatureRefused: there are such, or it is nested too deeply. What is no JSON is its parser's to refuse.
    """

    def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise SignatureRefused("what is signed has two values under one name")
        return found

    try:
        json.loads(payload, object_pairs_hook=named_once)
    except RecursionError:
        raise SignatureRefused("what is signed is nested too deeply") from None
    except ValueError:
        return


def open_envelope(envelope: Envelope) -> Signed:
    """Check an envelope's signature by the key that it carries, and parse its statement.

    Raises:
        SignatureRefused: the signature is invalid, or the signed content is not a statement about a release.
    """
    payload, key = open_payload(envelope)
    try:
        statement = Statement.model_validate_json(payload)
        Release.parse(statement.subject[0].name)
    except ValidationError as error:
        raise SignatureRefused(f"what is signed is no statement of ours: {invalid_fields(error)}") from error
    except NameRefused as error:
        raise SignatureRefused(f"what is signed speaks of no release: {error}") from error
    _check_manifest(statement)
    return Signed(statement, key)


def verify(envelope: Envelope, digest: str, release: Release, pins: Pins, *, is_exact: bool = False) -> Statement:
    """Check that an envelope is about this bundle and release, and signed by a key that may sign for its namespace.

    Any key may sign for a namespace without pins; the caller must pin it then (`TrustStore.admit` does both).
    `is_exact` says that the user or a lock named this very version; else a version older than one seen before is
    refused.

    Raises:
        SignatureRefused: the signature is invalid, or it is about another bundle or release.
        KeyChanged: another key than the pinned ones signed it.
        Replayed: a newer version was seen before, or this one with other bytes.
    """
    signed = open_envelope(envelope)
    statement = signed.statement
    if statement.release != release:
        raise SignatureRefused(f"{release} was asked for, but the statement speaks of {statement.release}")
    if statement.digest != digest:
        raise SignatureRefused(
            f"the bundle of {release} is not the one that was signed: it is {digest}, signed is {statement.digest}; "
            "it was changed on the way, or the registry mixed them up"
        )
    pins.check_key(release.package.namespace, signed.key.id)
    pins.check_version(release, digest, is_exact=is_exact)
    return statement


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: DSSE's PAE (github.com/secure-systems-lab/dsse, protocol.md)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _check_manifest(statement: Statement) -> None:
    manifest, subject = statement.predicate.manifest, statement.subject[0].name
    declared = f"{manifest.get('name')}@{manifest.get('version')}"
    if declared != subject:
        raise SignatureRefused(f"the statement speaks of {subject}, but its manifest of {declared}")


def _decoded(text: str) -> bytes:
    """Decode standard base64, refusing all but its canonical form, so that no bit of an envelope is free."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("base64 that is not canonical")
    return raw
