"""Authenticates requests to a registry's server and limits their rate."""

from dataclasses import dataclass

from anyio import to_thread
from starlette.requests import Request

from rollouthub.http.asgi import note_holder
from rollouthub_registry.server.rate_limit import RateLimit
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.token_hashes import Scope, Token, Tokens


@dataclass(frozen=True)
class Rates:
    """Most requests per minute of one caller; as many may come at once."""

    reads: int = 1200
    """Requests of any kind from one address."""
    writes: int = 120
    """Publications and yanks with one token."""
    failures: int = 20
    """Requests with an invalid token from one address."""


class AccessControl:
    """Checks tokens and counts requests."""

    def __init__(self, tokens: Tokens, rates: Rates) -> None:
        self._tokens = tokens
        self._reads = RateLimit(rates.reads, "requests of this address")
        self._writes = RateLimit(rates.writes, "publications with this token")
        self._failures = RateLimit(rates.failures, "wrong tokens of this address")

    def count(self, address: str) -> None:
        """Count a request from an address.

        Raises:
            RegistryRequestRefused: the address made too many.
        """
        self._reads.take(address)

    async def known(self, request: Request, *, is_read: bool = False) -> Token:
        """The valid token of a request; unless `is_read`, counts as a publication or yank with it.

        Raises:
            RegistryRequestRefused: there is no token, it is not valid, or it was used too often.
        """
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not text:
            raise RegistryRequestRefused(
                401, "this needs a token: Authorization: Bearer …, as `hub registry token create` makes them"
            )
        token = await to_thread.run_sync(self._tokens.find, text.strip())
        if token is None:
            self._failures.take(address_of(request))
            raise RegistryRequestRefused(401, "this token is not valid: unknown, expired or revoked")
        note_holder(request.scope, token.token_id.encode())
        if not is_read:
            self._writes.take(token.token_id)
        return token

    def permit(self, token: Token, scope: Scope, namespace: str) -> None:
        """Check that a token permits `scope` in a namespace.

        Raises:
            RegistryRequestRefused: it does not.
        """
        if not token.allows(scope, namespace):
            allowed = f"{' and '.join(token.scopes)} in {token.namespace!r}"
            raise RegistryRequestRefused(403, f"this token is for {allowed}, not to {scope} in {namespace!r}")


def address_of(request: Request) -> str:
    """The client address of a request; behind a proxy, the proxy's."""
    return request.client.host if request.client is not None else ""
