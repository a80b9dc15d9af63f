"""vLLM's development routes, of the mock server and of a policy's: pausing, loading weights, and their version."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import msgspec
from aiohttp import web

from rollouthub.errors import UsageError
from rollouthub.event_loop import is_crowded
from rollouthub.generation import Model, ModelReply, ModelRequest
from rollouthub.messages import Message
from rollouthub.models.direct.lane import POLICY_VERSION_HEADER

ABORTED = ModelReply(message=Message(role="assistant"), finish_reason="abort")
"""The reply, as from vLLM, to a request that a pause aborted."""
_MOST_CALLS, _MOST_CHARACTERS = 1000, 100
UNTOLD = "default"
"""vLLM's weight version if none was set."""


class DevelopmentRoutes:
    """The state behind the routes. As in vLLM, a paused server queues new requests until it is resumed."""

    def __init__(self, load: Callable[[str], Awaitable[None]] | None = None) -> None:
        """`load` loads the weights in a folder, for `reload_weights`; it raises a `UsageError` if it cannot. A mock has
        none to load.
        """
        self.weight_version = UNTOLD
        self._load = load
        self.calls = list[str]()
        """The worker methods that were called last, in order."""
        self._resumed: anyio.Event | None = None
        """The event that is set on resume; None while the server is not paused."""
        self._in_flight: set[anyio.CancelScope] = set()
        self._drained = anyio.Event()

    @property
    def headers(self) -> Mapping[str, str] | None:
        """Response headers with the weight version, once one was set; vLLM sends none on the chat route."""
        return None if self.weight_version == UNTOLD else {POLICY_VERSION_HEADER: self.weight_version}

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add the routes to a router."""
        router.add_post("/pause", self._pause)
        router.add_post("/resume", self._resume)
        router.add_get("/is_paused", self._is_paused)
        router.add_post("/reset_prefix_cache", self._reset_prefix_cache)
        router.add_post("/collective_rpc", self._call_workers)
        router.add_post("/update_weight_version", self._update_version)
        router.add_get("/weight_info", self._weight_info)

    async def generate(self, model: Model, request: ModelRequest) -> ModelReply:
        """Call the model; if the server is paused, wait until it is resumed."""
        while self._resumed is not None:
            await self._resumed.wait()
        scope = anyio.CancelScope()
        self._in_flight.add(scope)
        try:
            with scope:
                return await model.generate(request)
            return ABORTED
        finally:
            self._in_flight.discard(scope)
            if not self._in_flight:
                self._drained.set()
                self._drained = anyio.Event()

    async def _pause(self, request: web.Request) -> web.Response:
        mode = request.query.get("mode", "abort")
        if mode not in ("abort", "wait", "keep"):
            return _json({"error": f"Invalid pause mode: {mode}"}, 400)
        self._resumed = self._resumed or anyio.Event()
        if mode == "abort":
            for scope in self._in_flight:
                scope.cancel()
        # A mock's answers cannot be frozen in the middle: `keep` lets them end, and waits for none.
        while mode != "keep" and self._in_flight:
            await self._drained.wait()
        return _json({"status": "paused"})

    async def _resume(self, request: web.Request) -> web.Response:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None
        return _json({"status": "resumed"})

    async def _is_paused(self, request: web.Request) -> web.Response:
        return _json({"is_paused": self._resumed is not None})

    async def _reset_prefix_cache(self, request: web.Request) -> web.Response:
        return _json({"success": True})

    async def _call_workers(self, request: web.Request) -> web.Response:
        asked = await _fields(request)
        if "method" not in asked:
            return _json({"error": "Missing 'method' in request body"}, 400)
        if not isinstance(asked.get("kwargs") or {}, dict):
            return _json({"error": "'kwargs' in request body is no object"}, 400)
        self.calls.append(str(asked["method"])[:_MOST_CHARACTERS])
        del self.calls[:-_MOST_CALLS]
        if self._load is not None:
            named: dict[str, Any] = asked.get("kwargs") or {}
            path = named.get("weights_path")
            if asked["method"] != "reload_weights" or not isinstance(path, str):
                return _json({"error": "only reload_weights with a weights_path is known here"}, 400)
            try:
                await self._load(path)
            except UsageError as error:
                return _json({"error": str(error)}, 400)
        return _json({"results": [None]})

    async def _update_version(self, request: web.Request) -> web.Response:
        asked = await _fields(request)
        version = asked.get("new_version")
        text = str(version) if isinstance(version, str | int) else ""
        if not (0 < len(text) <= _MOST_CHARACTERS and text.isascii() and text.isprintable()):
            said = f"Missing, unprintable or long 'new_version' in request body; at most {_MOST_CHARACTERS} characters"
            return _json({"error": said}, 400)
        self.weight_version = text
        return _json({"success": True, "new_version": self.weight_version})

    async def _weight_info(self, request: web.Request) -> web.Response:
        return _json({"weight_version": self.weight_version})


async def _fields(request: web.Request) -> dict[str, Any]:
    """The body's fields; none if it is no JSON object, or one of more values than an order has."""
    body = await request.read()
    try:
        return {} if is_crowded(body) else msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return {}


def _json(value: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
