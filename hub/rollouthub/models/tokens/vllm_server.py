"""A vLLM server's routes for token ids, which render, sample and parse separately (`--enable-scale-out`)."""

from rollouthub.models.tokens.token_server import RouteMissing, TokenServer

RENDER = "/v1/chat/completions/render"
GENERATE = "/inference/v1/generate"
DERENDER = "/v1/chat/completions/derender"
MOST_FEATURES_BYTES, MOST_BYTES_A_MEDIUM = 2**30, 2**26
"""Most bytes of a rendered conversation with pictures, and what each of them may add: one of a megapixel takes some
17 MB in base64.
"""
_NEEDS = "vLLM 0.32 or later, started with --enable-scale-out; restart it so"


class VllmServer(TokenServer):
    """A vLLM server."""

    def missing(self, route: str, status: int, body: bytes) -> RouteMissing | None:
        """The error if an answer means that the route does not exist: vLLM has it behind a flag, and older versions
        not at all.
        """
        words = body[:300].decode(errors="replace")
        if status == 403 and "scale" in words.lower():
            return RouteMissing(route, status, ": they are switched off", _NEEDS)
        if status in (404, 405) and "model" not in words.lower():
            return RouteMissing(route, status, "", _NEEDS)
        return None
