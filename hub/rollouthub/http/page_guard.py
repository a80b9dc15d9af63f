"""Access control of pages that this machine serves to its own user's browser: token, origin and host name."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Literal
from urllib.parse import parse_qsl

from rollouthub.http.asgi import Scope

TOKEN_BYTES = 24
PLACE_BYTES = 9
HOST = "127.0.0.1"
READING = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content security policy of every page: nothing from other origins, no script but the served file, and no way to
make HTML or script of text.
"""
HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not `no-referrer`: with it, browsers send forms with `Origin: null`. No other origin learns an address of ours.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every response."""


class PageGuard:
    """Checks every request to the pages of one server."""

    def __init__(self, port: int, name: str) -> None:
        """`name` is the command that serves the pages, as a cookie's name may contain it."""
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.place = f"/{secrets.token_urlsafe(PLACE_BYTES)}/"
        """Path prefix of all pages, to which the cookie is limited: cookies do not distinguish ports, so other
        servers would get it.
        """
        self._hosts = tuple(f"{host}:{port}".encode() for host in (HOST, "localhost"))
        self._origins = tuple(b"http://" + host for host in self._hosts)
        self.cookie = f"{name}-{port}"

    @property
    def origin(self) -> str:
        """The origin of the pages."""
        return self._origins[0].decode()

    @property
    def address(self) -> str:
        """The URL for a person to open, which contains the token."""
        return f"{self.origin}{self.place}?token={self.token}"

    @property
    def set_cookie(self) -> str:
        """The value of the `Set-Cookie` header that lets a browser in."""
        return f"{self.cookie}={self.token}; Path={self.place}; HttpOnly; SameSite=Strict"

    @property
    def form_key(self) -> str:
        """The key that every form of these pages carries, and that no page of others can know."""
        return hmac.new(self.token.encode(), b"form", hashlib.sha256).hexdigest()

    def is_form_key(self, given: str) -> bool:
        """Whether a text is the forms' key, compared in constant time."""
        return _same(given, self.form_key)

    def opens(self, given: str | None) -> bool:
        """Whether a text is the token, compared in constant time."""
        return _same(given or "", self.token)

    def given_token(self, scope: Scope) -> str | None:
        """The token in a request's query; None without one."""
        query = scope["query_string"].decode("latin-1")
        return dict(parse_qsl(query)).get("token") if "token=" in query else None

    def refusal(self, scope: Scope) -> tuple[Literal[401, 403], str] | None:
        """Why a request is refused, as a status and words; None if it is allowed.

        Reading needs the token; a request that changes something must also come from a page of ours.
        """
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            # A name that leads here by somebody else's doing would make their page one of ours.
            return 403, "not a name of this server"
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if any(origin != b"http://" + hosts[0] for origin in origins):
            return 403, "not from another page"
        if scope["method"] not in READING and not origins:
            return 403, "only a page of this server may ask for that"
        is_reading = scope["method"] in READING
        if not self.opens(self._cookie_of(scope)) and not (is_reading and self.opens(self.given_token(scope))):
            return 401, "open the address that the command printed, with its token"
        return None

    def _cookie_of(self, scope: Scope) -> str | None:
        """The token in the guard's cookie, whatever other cookies there are."""
        name = self.cookie.encode()
        for key, value in scope["headers"]:
            if key == b"cookie":
                for part in value.split(b";"):
                    given, _, token = part.strip().partition(b"=")
                    if given == name:
                        return token.decode("latin-1")
        return None


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
