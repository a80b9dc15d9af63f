"""Calls of an environment server: bounded in time and size, and everything that goes wrong typed."""

import asyncio
import io
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticSerializationError
from yarl import URL

from rollouthub.errors import (
    AgentError,
    ConfigError,
    CredentialError,
    EpisodeError,
    HubError,
    NotOffered,
    TaskError,
    describe,
)
from rollouthub.hosting.control_wire import Failure, error_of
from rollouthub.hosting.local.host import CONTRACT_VERSION
from rollouthub.models.address import is_loopback
from rollouthub.protocols import EnvironmentInfo
from rollouthub.tracing import HEADER as TRACE_HEADER
from rollouthub.tracing import TRACEPARENT

MAX_ANSWER_BYTES = 64 * 2**20
"""A larger answer is refused: no page of tasks, snapshot or tool result comes near."""
CONNECT_SECONDS = 10.0
GRACE_SECONDS = 5.0
BLAME_SECONDS = 10.0
"""On top of a seal's deadlines: to learn why a sandbox cannot be stopped."""
INFO_SECONDS = 30.0
_KEEP_ALIVE_SECONDS = 4.0
"""Shorter than the five seconds after which common servers hang up, so that a call rarely meets a dying connection."""
_LARGE_BODY = 2**20
"""aiohttp warns of larger `bytes` bodies; a stream of the same bytes is written piecemeal."""

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class ServerFault(TaskError):
    """The environment's server is gone, silent, or does not speak the contract."""


class ServerConnection:
    """One environment server, as its control plane and its agents reach it."""

    def __init__(
        self,
        control_url: str,
        token: str,
        control: aiohttp.ClientSession,
        agents: aiohttp.ClientSession,
        grace_seconds: float,
        on_fault: Callable[[], None],
    ) -> None:
        """`on_fault` hears of every call that met the server gone, silent, or talking nonsense."""
        self._grace_seconds = grace_seconds
        self._base = "http://control" if control_url.startswith("unix:") else control_url
        self.elsewhere = None if control_url.startswith("unix:") or is_loopback(control_url) else URL(control_url).host
        """The machine that the server is on; None where it is this one."""
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._control, self._agents, self._on_fault = control, agents, on_fault

    async def call(
        self, method: str, path: str, answer: type[AnswerT], body: BaseModel | None = None, *, seconds: float
    ) -> AnswerT:
        """One call of the control plane.

        Raises:
            HubError: what the server says went wrong, under its own type.
            ServerFault: it is gone, silent, or answers what is no answer.
        """
        what = f"{method} {path.partition('?')[0]}"
        try:
            data = None if body is None else body.model_dump_json().encode()
        except PydanticSerializationError as error:
            raise AgentError(f"what was said cannot be sent ({what}): {error}") from None
        url = URL(self._base + path, encoded=True)
        limit = seconds + self._grace_seconds
        headers = self._headers
        if (parent := TRACEPARENT.get()) is not None:
            headers = {**headers, TRACE_HEADER: parent}
        status, raw = await self._exchange(self._control, method, url, data, headers, limit, what)
        try:
            if status < 400:
                return answer.model_validate_json(raw)
            failure = Failure.model_validate_json(raw)
        except ValidationError as error:
            if status in (401, 403):
                raise CredentialError(f"the environment server refused access ({what}, HTTP {status})") from None
            told = error.errors(include_url=False, include_input=False)[0]
            raise self.fault(
                f"answered {what} (HTTP {status}) with what is no {answer.__name__}: "
                f"{'.'.join(map(str, told['loc']))} {told['msg']}"
            ) from None
        raise error_of(failure.error)

    async def ask(
        self, method: str, path: str, answer: type[AnswerT], body: BaseModel | None = None, *, seconds: float
    ) -> AnswerT:
        """A call on behalf of one episode: what the server refuses breaks that episode, and not the run.

        Raises:
            EpisodeError: what the server says went wrong, or the server's own fault.
            NotOffered: the environment does not offer it.
        """
        try:
            return await self.call(method, path, answer, body, seconds=seconds)
        except (EpisodeError, NotOffered):
            raise
        except HubError as error:
            raise TaskError(f"the environment server refused: {error}", retryable=False) from error

    async def post_to_agents(
        self, url: URL, body: bytes, headers: dict[str, str], *, seconds: float, what: str
    ) -> tuple[int, bytes]:
        """One call of the agent plane: its status and body.

        Raises:
            ServerFault: there is no answer in time, or it is too large.
        """
        return await self._exchange(self._agents, "POST", url, body, headers, seconds + self._grace_seconds, what)

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        method: str,
        url: URL,
        data: bytes | None,
        headers: dict[str, str],
        seconds: float,
        what: str,
    ) -> tuple[int, bytes]:
        if session.closed:
            raise self.fault(f"is gone ({what}: it was given up)")
        body = data if data is None or len(data) <= _LARGE_BODY else io.BytesIO(data)
        try:
            async with asyncio.timeout(seconds):
                async with session.request(method, url, data=body, headers=headers, allow_redirects=False) as response:
                    return response.status, await self._read(response, what)
        except TimeoutError:
            raise self.fault(f"did not answer {what} within {seconds:g} s") from None
        except aiohttp.ClientConnectorError as error:
            code = error.os_error.errno
            why = os.strerror(code) if code else str(error.os_error) or type(error.os_error).__name__
            raise self.fault(f"cannot be reached ({what}: no connection to {self._base}: {why})") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self.fault(f"is gone ({what}: {describe(error)})") from error

    async def _read(self, response: aiohttp.ClientResponse, what: str) -> bytes:
        length = response.content_length
        if length is not None and length <= MAX_ANSWER_BYTES:
            return await response.read()
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                response.close()
                raise self.fault(f"answered {what} with more than {MAX_ANSWER_BYTES >> 20} MiB")
            chunks.append(chunk)
        return b"".join(chunks)

    def fault(self, words: str) -> ServerFault:
        """An error that says what the server did; the server is looked at."""
        self._on_fault()
        return ServerFault(f"the environment server {words}")

    async def info(self) -> EnvironmentInfo:
        """What the server says of its environment.

        Raises:
            ConfigError: it speaks another version of the contract.
            HubError: it refuses, or there is no answer.
        """
        path = "/v1/environment"
        spoken = await self.call("GET", path, _Spoken, seconds=INFO_SECONDS)
        if spoken.contract != CONTRACT_VERSION:
            raise ConfigError(
                f"environment {spoken.name!r} is served under contract version {spoken.contract}, "
                f"this hub speaks version {CONTRACT_VERSION}; install matching versions"
            )
        return await self.call("GET", path, EnvironmentInfo, seconds=INFO_SECONDS)

    async def is_healthy(self, seconds: float) -> bool:
        """Whether the server answers at all. To ask is not yet to suspect: `on_fault` hears nothing of it."""
        if self._control.closed:
            return False
        try:
            async with asyncio.timeout(seconds), self._control.get(URL(self._base + "/health")) as response:
                return response.status == 200
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False


class _Spoken(BaseModel):
    """As much of `EnvironmentInfo` as every version of the contract has."""

    model_config = ConfigDict(extra="ignore")

    name: str
    contract: int


@asynccontextmanager
async def connect(
    control_url: str,
    token: str,
    grace_seconds: float = GRACE_SECONDS,
    on_fault: Callable[[], None] = lambda: None,
) -> AsyncGenerator[ServerConnection]:
    """Connection pools to a server's two planes; closed on the way out.

    `grace_seconds` is what a call may take beyond the deadline that the server keeps itself.
    """
    if control_url.startswith("unix:"):
        control_pool: aiohttp.BaseConnector = aiohttp.UnixConnector(
            path=control_url[len("unix:") :], limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS
        )
    else:
        control_pool = _tcp_pool()
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS)
    async with (
        aiohttp.ClientSession(connector=control_pool, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as control,
        aiohttp.ClientSession(
            connector=_tcp_pool(),
            timeout=timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "rollouthub", "Accept-Encoding": "identity"},
        ) as agents,
    ):
        yield ServerConnection(control_url, token, control, agents, grace_seconds, on_fault)


def _tcp_pool() -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=_KEEP_ALIVE_SECONDS)
