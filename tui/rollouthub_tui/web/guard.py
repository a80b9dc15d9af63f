"""Access control of `hub watch --web`: token, origin and host name."""

import hmac
import secrets

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

TOKEN_BYTES = 24
PLACE_BYTES = 9

_ALWAYS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Checks every request to the server."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.place = f"/{secrets.token_urlsafe(PLACE_BYTES)}/"
        """Path prefix of all pages, to which the cookie is limited: cookies do not distinguish ports, so other
        servers would get it.
        """
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.cookie = f"hub-watch-{port}"

    @property
    def address(self) -> str:
        """The URL for a person to open, which contains the token."""
        return f"http://{self._hosts[0]}{self.place}?token={self.token}"

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every response: nothing may be loaded from other origins, and other pages may not embed this
        one.
        """
        sockets = " ".join(f"ws://{host}" for host in self._hosts)
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
            f"img-src 'self' data:; connect-src {sockets}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return {**_ALWAYS, "Content-Security-Policy": policy}

    def opens(self, given: str | None) -> bool:
        """Whether a text is the token, compared in constant time."""
        return hmac.compare_digest((given or "").encode("utf-8", "replace"), self.token.encode())

    def refusal(self, request: web.Request) -> web.Response | None:
        """Why a request is refused; None if it is allowed."""
        if request.headers.getall("Host", []) not in ([host] for host in self._hosts):
            # A name that leads here by somebody else's doing would make their page one of ours.
            return web.Response(status=403, text="not a name of this server\n")
        origin = request.headers.get("Origin")
        if request.headers.get("Upgrade") is not None and origin is None:
            return web.Response(status=403, text="only a page may open this\n")
        if origin is not None and origin != f"http://{request.host}":
            return web.Response(status=403, text="not from another page\n")
        is_first = request.path == self.place and "token" in request.query
        given = request.query.get("token") if is_first else request.cookies.get(self.cookie)
        if not self.opens(given):
            return web.Response(status=401, text="open the address that `hub watch --web` printed, token and all\n")
        return None

    def middleware(self) -> Middleware:
        """The guard as a middleware of the server."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            response = self.refusal(request)
            if response is None:
                try:
                    response = await handler(request)
                except web.HTTPException as error:  # not found, or not with this method
                    response = web.Response(status=error.status, text=f"{error.reason}\n")
            if not response.prepared:
                response.headers.update(self.headers)
            return response

        return check
