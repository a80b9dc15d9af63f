"""Envelopes: what verifies, and that nothing else does."""

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope as ReferenceEnvelope
from securesystemslib.signer import (
    CryptoSigner,  # pyright: ignore[reportPrivateImportUsage]
    SSlibKey,  # pyright: ignore[reportPrivateImportUsage]
)

from rollouthub_registry.bundle.attestation import PAYLOAD_TYPE
from rollouthub_registry.names import Release
from rollouthub_registry.trust.keys import Key
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signatures import (
    open_envelope,
    open_payload,
    parse_envelope,
    pre_authentication,
    sign,
    sign_payload,
    verify,
)
from rollouthub_registry.trust.trust_error import KeyChanged, Replayed, SignatureRefused
from tests.registry.trust.statements import DIGEST, KEY, OTHER_DIGEST, STRANGER, WORDS, envelope, statement


def test_what_was_signed_verifies_also_after_the_wire() -> None:
    signed = parse_envelope(envelope().model_dump_json().encode())
    assert verify(signed, DIGEST, WORDS, Pins()) == statement()
    assert open_envelope(signed).key.id == KEY.id


def test_the_encoding_is_that_of_the_specification() -> None:
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def reference_key(key: Key, key_id: str) -> SSlibKey:
    """A public key as the reference implementation has it."""
    return SSlibKey(key_id, "ed25519", "ed25519", {"public": key.public.raw.hex()})


def test_the_reference_implementation_verifies_our_envelope() -> None:
    wire: dict[str, Any] = json.loads(envelope().model_dump_json())
    # Its dicts have no type.
    theirs = ReferenceEnvelope.from_dict(wire)  # pyright: ignore[reportUnknownMemberType]
    assert list(theirs.verify([reference_key(KEY, KEY.id)], 1)) == [KEY.id]


def test_we_verify_an_envelope_of_the_reference_implementation() -> None:
    signer = CryptoSigner.generate_ed25519()
    raw = bytes.fromhex(signer.public_key.keyval["public"])
    theirs = ReferenceEnvelope(statement().model_dump_json().encode(), PAYLOAD_TYPE, {})
    theirs.sign(signer)
    # Its dicts have no type.
    wire: dict[str, Any] = theirs.to_dict()  # pyright: ignore
    wire["signatures"][0]["keyid"] = hashlib.sha256(raw).hexdigest()
    wire["signatures"][0]["publicKey"] = base64.b64encode(raw).decode()
    assert verify(parse_envelope(json.dumps(wire).encode()), DIGEST, WORDS, Pins()) == statement()


def test_a_tampered_bundle_is_refused() -> None:
    with pytest.raises(SignatureRefused, match="is not the one that was signed"):
        verify(envelope(), OTHER_DIGEST, WORDS, Pins())


@pytest.mark.parametrize("asked", ["acme/words@1.2.1", "acme/other@1.2.0", "other/words@1.2.0"])
def test_a_statement_about_another_release_is_refused(asked: str) -> None:
    with pytest.raises(SignatureRefused, match=f"{asked} was asked for"):
        verify(envelope(), DIGEST, Release.parse(asked), Pins())


def test_a_statement_whose_manifest_is_of_another_package_is_refused() -> None:
    signed = sign(statement(manifest={"name": "acme/other", "version": "1.2.0"}), KEY)
    with pytest.raises(SignatureRefused, match="its manifest of acme/other"):
        verify(signed, DIGEST, WORDS, Pins())


def exchanged(**changes: str) -> bytes:
    """An honest envelope with fields of its signature exchanged."""
    wire: dict[str, Any] = json.loads(envelope().model_dump_json())
    wire["signatures"][0].update(changes)
    return json.dumps(wire).encode()


def test_a_signature_of_another_key_is_refused() -> None:
    stolen: dict[str, Any] = json.loads(envelope(key=STRANGER).model_dump_json())
    with pytest.raises(SignatureRefused, match="was changed"):
        open_envelope(parse_envelope(exchanged(sig=stolen["signatures"][0]["sig"])))


def test_a_key_id_that_is_not_the_keys_is_refused() -> None:
    with pytest.raises(SignatureRefused, match="but carries"):
        open_envelope(parse_envelope(exchanged(keyid=STRANGER.id)))


def test_a_key_put_in_place_of_the_signers_is_refused() -> None:
    with pytest.raises(SignatureRefused, match="was changed"):
        open_envelope(parse_envelope(exchanged(keyid=STRANGER.id, publicKey=STRANGER.public.text)))


def test_something_else_signed_by_the_right_key_is_refused() -> None:
    payload = b'{"_type": "https://in-toto.io/Statement/v1", "subject": []}'
    wire: dict[str, Any] = json.loads(envelope().model_dump_json())
    wire["payload"] = base64.b64encode(payload).decode()
    signature = KEY.sign(pre_authentication(PAYLOAD_TYPE, payload))
    wire["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    with pytest.raises(SignatureRefused, match="is no statement of ours"):
        open_envelope(parse_envelope(json.dumps(wire).encode()))


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"payload": 1}', b"[" * 100_000])
def test_what_is_no_envelope_is_refused(content: bytes) -> None:
    with pytest.raises(SignatureRefused, match="no envelope"):
        parse_envelope(content)


WIRE = envelope().model_dump_json().encode()


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, len(WIRE) - 1), change=st.integers(1, 255))
def test_every_changed_byte_of_an_envelope_is_refused(place: int, change: int) -> None:
    tampered = bytearray(WIRE)
    tampered[place] ^= change
    with pytest.raises(SignatureRefused):
        verify(parse_envelope(bytes(tampered)), DIGEST, WORDS, Pins())


def test_a_changed_key_is_refused_and_the_message_says_what_to_run() -> None:
    pins = Pins(namespaces={"acme": (KEY.id,)})
    verify(envelope(), DIGEST, WORDS, pins)
    with pytest.raises(KeyChanged, match=f"`hub trust add acme {STRANGER.id}`"):
        verify(envelope(key=STRANGER), DIGEST, WORDS, pins)


def test_any_of_several_pinned_keys_may_sign() -> None:
    pins = Pins(namespaces={"acme": (STRANGER.id, KEY.id)})
    verify(envelope(), DIGEST, WORDS, pins)
    verify(envelope(key=STRANGER), DIGEST, WORDS, pins)


def test_an_older_version_than_was_seen_is_refused_unless_asked_for_exactly() -> None:
    pins = Pins(seen={"acme/words": {"1.10.0": OTHER_DIGEST}})
    with pytest.raises(Replayed, match=r"1\.10\.0 was there before"):
        verify(envelope(), DIGEST, WORDS, pins)
    verify(envelope(), DIGEST, WORDS, pins, is_exact=True)


def test_a_known_version_with_other_bytes_is_refused_even_when_asked_for_exactly() -> None:
    pins = Pins(seen={"acme/words": {"1.2.0": OTHER_DIGEST}})
    with pytest.raises(Replayed, match="a version never changes"):
        verify(envelope(), DIGEST, WORDS, pins, is_exact=True)


@pytest.mark.parametrize(
    "payload", [b'{"_type": "a", "_type": "b"}', b'{"a": [{"b": 1, "\\u0062": 2}]}', b"[" * 200_000]
)
def test_two_values_under_one_name_are_refused_although_they_are_signed(payload: bytes) -> None:
    """One reader takes the first, another the last."""
    with pytest.raises(SignatureRefused, match=r"two values under one name|nested too deeply"):
        open_payload(sign_payload(payload, KEY))
