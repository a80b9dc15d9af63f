"""Opening a signed statement."""

import base64
import hashlib
from dataclasses import dataclass

from pydantic import ValidationError

from envhub_registry.bundle.facts import Envelope, Statement
from envhub_registry.server.refusal import Refused


@dataclass(frozen=True)
class Signed:
    """An envelope whose signature holds, and what is in it."""

    envelope: Envelope
    statement: Statement


def open_envelope(content: bytes) -> Signed:
    """Read an envelope, and see that its signature holds.

    Raises:
        Refused: it does not.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        envelope = Envelope.model_validate_json(content)
        signature = envelope.signatures[0]
        raw = base64.b64decode(signature.public_key, validate=True)
        if hashlib.sha256(raw).hexdigest() != signature.keyid:
            raise Refused(422, "the statement's key id is not that of the key it names")
        payload = base64.b64decode(envelope.payload, validate=True)
        kind = envelope.payload_type.encode()
        signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
        Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(signature.sig, validate=True), signed)
        return Signed(envelope, read_payload(envelope))
    except InvalidSignature:
        raise Refused(
            422, "the statement's signature does not hold: it was changed, or signed by another key"
        ) from None
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in problem["loc"])
        raise Refused(422, f"the statement is none: {place}: {problem['msg']}") from error
    except ValueError as error:
        raise Refused(422, f"the statement is none: {error}") from error


def read_payload(envelope: Envelope) -> Statement:
    """The statement in an envelope, whether its signature holds or not.

    Raises:
        ValidationError: there is none in it.
        ValueError: it is not base64.
    """
    return Statement.model_validate_json(base64.b64decode(envelope.payload, validate=True))
