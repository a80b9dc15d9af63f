"""Errors of signatures that are not trusted."""

from rollouthub.errors import UsageError


class TrustRefused(UsageError):
    """A statement about a bundle is not trusted; nothing was written."""


class SignatureRefused(TrustRefused):
    """The envelope is not validly signed, or is about something else."""


class KeyChanged(TrustRefused):
    """The namespace is pinned to keys other than the one that signed."""

    def __init__(self, namespace: str, pinned: tuple[str, ...], signed: str) -> None:
        self.namespace, self.pinned, self.signed = namespace, pinned, signed
        super().__init__(
            f"the key of {namespace!r} changed: it is pinned to {', '.join(pinned)}, and this is signed by {signed}; "
            f"ask its owner whether that is so, and only then run `hub trust add {namespace} {signed}`"
        )


class Replayed(TrustRefused):
    """An older version is offered as the newest, or a known version with other bytes."""
