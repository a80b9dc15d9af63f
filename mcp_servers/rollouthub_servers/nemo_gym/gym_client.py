"""`GymSession`: one episode's HTTP session with a resources server, with cookie and hub-only routes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import aiohttp
import anyio
from pydantic_core import from_json, to_json

from rollouthub.errors import TaskError
from rollouthub_servers.foreign.process import ForeignProcess

CONTROL_ROUTES = frozenset(
    {"verify", "seed_session", "close_session", "aggregate_metrics", "reverify_mode", "mcp", "reset", "step"}
)
"""Routes that only the hub calls; no tool may have one of these names."""
ANSWER_BYTES = 32 << 20
_BASE = "http://server/"
_SHOWN = 600


@dataclass(frozen=True)
class GymAnswer:
    """The server's response."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")


class GymSession:
    """An HTTP session with a server's process; agents never see the cookie that identifies it."""

    def __init__(self, process: ForeignProcess, http: aiohttp.ClientSession) -> None:
        self.process, self._http = process, http

    async def post(self, route: str, body: Any, seconds: float) -> GymAnswer:
        """Post to a route; responses of any status are returned.

        Raises:
            TaskError: the process is gone, hangs, or its response is too long.
        """
        return await self._ask("POST", route, to_json(body), seconds)

    async def ask(self, route: str, body: Any, seconds: float) -> dict[str, Any]:
        """Post to a route that must respond with status 200 and a JSON object.

        Raises:
            TaskError: it does not, or the process is gone or hangs.
        """
        return self._object(route, await self.post(route, body, seconds))

    async def schema(self) -> dict[str, Any]:
        """The server's OpenAPI description.

        Raises:
            TaskError: the server does not give it.
        """
        seconds = self.process.program.start_seconds
        return self._object("openapi.json", await self._ask("GET", "openapi.json", None, seconds))

    def _object(self, route: str, answer: GymAnswer) -> dict[str, Any]:
        if answer.status != 200:
            # A validation error lists what it got, which may be long: the beginning says what is wrong.
            raise self.process.fault(f"answered /{route} with {answer.status}: {answer.text[:_SHOWN]}")
        try:
            value = from_json(answer.body)
            if not isinstance(value, dict):
                raise ValueError("it is no object")
        except ValueError as error:
            raise self.process.fault(f"answered /{route} with what is no JSON object: {answer.text[:200]!r}") from error
        return cast(dict[str, Any], value)

    async def _ask(self, method: str, route: str, body: bytes | None, seconds: float) -> GymAnswer:
        # Quoted whole: a name with slashes or dots is one segment, and never another route.
        url = _BASE + quote(route, safe="._-")
        headers = {"Content-Type": "application/json"}
        try:
            with anyio.fail_after(seconds):
                async with self._http.request(method, url, data=body, headers=headers, allow_redirects=False) as answer:
                    content = bytearray()
                    async for chunk in answer.content.iter_any():
                        content += chunk
                        if len(content) > ANSWER_BYTES:
                            raise self.process.fault(f"answered /{route} with more than {ANSWER_BYTES:,} bytes")
                    return GymAnswer(answer.status, bytes(content))
        except TimeoutError as error:
            await self._require_alive(route, seconds)
            raise self.process.fault(f"did not answer /{route} within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise await self._why(error) from error

    async def _why(self, error: Exception) -> TaskError:
        if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientResponseError) and self.process.is_alive:
            return self.process.fault(f"answers what is no HTTP: {str(error)[:200]}")
        return await anyio.to_thread.run_sync(self.process.gone)

    async def _require_alive(self, route: str, seconds: float) -> None:
        """End the process if it does not respond to a health check either.

        Raises:
            TaskError: it does not.
        """
        with anyio.move_on_after(self.process.program.ping_seconds):
            try:
                async with self._http.get(_BASE + "health"):
                    return
            except (aiohttp.ClientError, OSError) as error:
                raise await self._why(error) from error
        why = f"did not answer /{route} within {seconds:g} s, nor anything else since"
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.process.end, why)
        raise self.process.fault(why)


@asynccontextmanager
async def gym_session(process: ForeignProcess) -> AsyncGenerator[GymSession]:
    """Open a session with a cookie jar of its own."""
    connector = aiohttp.UnixConnector(path=str(process.socket))
    jar = aiohttp.CookieJar(unsafe=True)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, timeout=timeout) as http:
        yield GymSession(process, http)


def fields_of(schema: Mapping[str, Any], route: str) -> tuple[frozenset[str], frozenset[str]]:
    """The keys that a route's request and its response declare."""
    post = _at(schema, "paths", route, "post")
    asked = _at(post, "requestBody", "content", "application/json", "schema")
    answered = _at(post, "responses", "200", "content", "application/json", "schema")
    return _keys(schema, asked), _keys(schema, answered)


def _keys(schema: Mapping[str, Any], part: Mapping[str, Any]) -> frozenset[str]:
    name = str(part.get("$ref", "")).rpartition("/")[2]
    model = _at(schema, "components", "schemas", name) if name else part
    return frozenset(_at(model, "properties"))


def _at(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        found = value.get(key)
        value = cast(Mapping[str, Any], found) if isinstance(found, dict) else {}
    return value
