"""Calls of an environment server: bounded in time and size, and everything that goes wrong typed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
from pydantic import BaseModel, ValidationError
from yarl import URL

from envhub.errors import TaskError
from envhub.hosting.control import Failure, error_of

MAX_ANSWER_BYTES = 64 * 2**20
"""A larger answer is refused: no page of tasks, snapshot or tool result comes near."""
CONNECT_SECONDS = 10.0
GRACE_SECONDS = 5.0

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class ServerFault(TaskError):
    """The environment's server is gone, silent, or does not speak the contract."""


class Connection:
    """One environment server, as its control plane and its agents reach it."""

    def __init__(
        self,
        control_url: str,
        token: str,
        control: aiohttp.ClientSession,
        agents: aiohttp.ClientSession,
        grace_seconds: float,
    ) -> None:
        self.grace_seconds = grace_seconds
        """What a call may take beyond the deadline the server keeps itself."""
        self._base = URL("http://control" if control_url.startswith("unix:") else control_url)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._control, self.agents = control, agents

    async def call(
        self, method: str, path: str, answer: type[AnswerT], body: BaseModel | None = None, *, seconds: float
    ) -> AnswerT:
        """One call of the control plane.

        Raises:
            HubError: what the server says went wrong, under its own type.
            ServerFault: it is gone, silent, or answers what is no answer.
        """
        what = f"{method} {path.partition('?')[0]}"
        data = None if body is None else body.model_dump_json().encode()
        url = self._base.join(URL(path, encoded=True))
        status, raw = await exchange(
            self._control, method, url, data, self._headers, seconds=seconds + self.grace_seconds, what=what
        )
        try:
            if status < 400:
                return answer.model_validate_json(raw)
            failure = Failure.model_validate_json(raw)
        except ValidationError as error:
            told = error.errors(include_url=False, include_input=False)[0]
            raise ServerFault(
                f"the environment server answered {what} (HTTP {status}) with what is no {answer.__name__}: "
                f"{'.'.join(map(str, told['loc']))} {told['msg']}"
            ) from None
        raise error_of(failure.error)

    async def is_healthy(self, seconds: float) -> bool:
        """Whether the server answers at all."""
        url = self._base.join(URL("/health"))
        status, _ = await exchange(self._control, "GET", url, None, {}, seconds=seconds, what="GET /health")
        return status == 200


async def exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: URL,
    data: bytes | None,
    headers: dict[str, str],
    *,
    seconds: float,
    what: str,
) -> tuple[int, bytes]:
    """Send a request, read an answer: its status and body.

    Raises:
        ServerFault: there is no answer in time, or it is too large.
    """
    if session.closed:
        raise ServerFault(f"the environment server is gone ({what}: it was given up)")
    try:
        async with asyncio.timeout(seconds):
            async with session.request(method, url, data=data, headers=headers, allow_redirects=False) as response:
                return response.status, await _read(response, what)
    except TimeoutError:
        raise ServerFault(f"the environment server did not answer {what} within {seconds:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise ServerFault(f"the environment server is gone ({what}: {type(error).__name__}: {error})") from error


async def _read(response: aiohttp.ClientResponse, what: str) -> bytes:
    length = response.content_length
    if length is not None and length <= MAX_ANSWER_BYTES:
        return await response.read()
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            response.close()
            raise ServerFault(f"the environment server's answer to {what} is larger than {MAX_ANSWER_BYTES >> 20} MiB")
        chunks.append(chunk)
    return b"".join(chunks)


@asynccontextmanager
async def connect(control_url: str, token: str, grace_seconds: float = GRACE_SECONDS) -> AsyncGenerator[Connection]:
    """Connection pools to a server's two planes; closed on the way out."""
    if control_url.startswith("unix:"):
        control_pool: aiohttp.BaseConnector = aiohttp.UnixConnector(path=control_url[len("unix:") :], limit=0)
    else:
        control_pool = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300)
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS)
    async with (
        aiohttp.ClientSession(connector=control_pool, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as control,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            timeout=timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "envhub", "Accept-Encoding": "identity"},
        ) as agents,
    ):
        yield Connection(control_url, token, control, agents, grace_seconds)
