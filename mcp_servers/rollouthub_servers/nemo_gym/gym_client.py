"""`GymSession`: one episode's HTTP session with a resources server, with cookie, hub-only routes and its MCP tools."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import aiohttp
import anyio
from pydantic_core import from_json, to_json

from rollouthub.errors import SandboxOverrun, TaskError
from rollouthub_servers.foreign.process import ForeignProcess
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.session import connected

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


class VerdictFailure(TaskError):
    """The server's verifier failed at what it was asked: it answered with a status of the server's own failures."""


class GymSession:
    """An HTTP session with a server's process; agents never see the cookie that identifies it."""

    def __init__(self, process: ForeignProcess, http: aiohttp.ClientSession, *, forks: bool) -> None:
        self.process, self._http, self._forks = process, http, forks
        self._mcp_headers: dict[str, str] = {}
        self._has_broken = False

    async def post(self, route: str, body: Any, seconds: float) -> GymAnswer:
        """Post to a route; responses of any status are returned.

        Raises:
            TaskError: the process is gone, hangs, or its response is too long.
        """
        return await self._ask("POST", route, to_json(body), seconds)

    async def act(self, route: str, body: Any, seconds: float) -> GymAnswer:
        """`post` for what the agent does.

        Raises:
            SandboxOverrun: this session has a process of its own, and only that is gone or hangs.
            TaskError: the process is gone, hangs, or its response is too long.
        """
        self._has_broken = False
        try:
            return await self.post(route, body, seconds)
        except TaskError as error:
            if self._forks and self._has_broken and self.process.is_alive:
                raise SandboxOverrun(
                    f"/{route[:80]} took longer than a call may, or more memory than there is"
                ) from error
            raise

    async def step(self, body: Any, seconds: float) -> dict[str, Any]:
        """What a gymnasium-style server answers to a step of the agent; raises what `judge` does."""
        return self._object("step", await self.act("step", body, seconds))

    async def judge(self, body: Any, seconds: float) -> dict[str, Any]:
        """What the server's verifier answers to what the agent said.

        Raises:
            SandboxOverrun: this session has a process of its own, and only that is gone or hangs.
            VerdictFailure: the server answers with a status from 500 on.
            TaskError: the server does not answer with 200 and a JSON object, is gone or hangs.
        """
        answer = await self.act("verify", body, seconds)
        try:
            return self._object("verify", answer)
        except TaskError as error:
            if answer.status >= 500:
                raise VerdictFailure(str(error), retryable=error.retryable) from error
            raise

    async def call_mcp(self, method: str, params: Mapping[str, Any], exposed: Mapping[str, Any], seconds: float) -> Any:
        """The result of a request to the server's own MCP route, as the session's answer `exposed` it; None where it is
        an error.

        Raises:
            SandboxOverrun: this session has a process of its own, and only that is gone or hangs.
            TaskError: the process is gone, hangs, or answers what is no JSON-RPC.
        """
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._mcp_headers = {str(name): str(value) for name, value in exposed.get("headers", {}).items()}
        answer = self._object("mcp", await self.act("mcp", body, seconds))
        return answer.get("result")

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
        if route == "mcp":
            headers |= {"Accept": "application/json, text/event-stream", **self._mcp_headers}
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
            self._has_broken = True
            await self._require_alive(route, seconds)
            raise self.process.fault(f"did not answer /{route} within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            self._has_broken = True
            raise await self._why(error) from error

    async def _why(self, error: Exception) -> TaskError:
        if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientResponseError) and self.process.is_alive:
            return self.process.fault(f"answers what is no HTTP: {str(error)[:200]}")
        return await anyio.to_thread.run_sync(self.process.gone)

    async def _require_alive(self, route: str, seconds: float) -> None:
        """End the process if it does not respond to a health check either; where sessions are forked, to a new one.

        Raises:
            TaskError: it does not.
        """
        if self._forks:
            with anyio.move_on_after(self.process.program.ping_seconds):
                async with connected(self.process) as other:
                    await other.ask("ping", seconds=self.process.program.ping_seconds)
                    return
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
async def gym_session(runtime: ForeignRuntime, *, is_alone: bool = False) -> AsyncGenerator[GymSession]:
    """Open a session with a cookie jar of its own, in a process of its own where the server can be forked.

    Raises:
        TaskError: the server does not start, or is gone.
        ConfigError: it cannot be started here.
    """
    async with runtime.session(is_alone=is_alone) as control:
        process = control.process
        told: dict[str, Any] = await control.ask("serve", seconds=process.program.start_seconds)
        socket = process.socket.with_name(str(told["socket"]))
        jar = aiohttp.CookieJar(unsafe=True)
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.UnixConnector(path=str(socket))
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, timeout=timeout) as http:
            try:
                yield GymSession(process, http, forks=bool(told["forks"]))
            finally:
                if told["forks"]:
                    socket.unlink(missing_ok=True)


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
