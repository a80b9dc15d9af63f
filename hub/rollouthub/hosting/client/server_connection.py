"""Calls to an environment server: limited in time and size, with a typed error for each failure."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

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
    invalid_fields,
)
from rollouthub.hosting.control_wire import Failure, error_of
from rollouthub.http.exchange import MAX_ANSWER_BYTES, HttpPool, open_pool
from rollouthub.http.no_answer import AnswerTooLarge, AnswerTooSlow, NoAnswer, NotConnected
from rollouthub.http.whole_answer import WholeAnswer
from rollouthub.models.address import is_loopback
from rollouthub.plugins.env_toml import CONTRACT
from rollouthub.protocols import EnvironmentInfo
from rollouthub.tracing import HEADER as TRACE_HEADER
from rollouthub.tracing import TRACEPARENT

GRACE_SECONDS = 5.0
BLAME_SECONDS = 10.0
"""Seconds added to the deadlines of a seal, to find out why a sandbox cannot be stopped."""
INFO_SECONDS = 30.0

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class ServerFault(TaskError):
    """The environment's server is gone, does not answer, or does not speak the contract."""


class ServerConnection:
    """Connections to one environment server: to its control plane and to its seats' MCP endpoints."""

    def __init__(
        self,
        control_url: str,
        token: str,
        control: HttpPool,
        agents: HttpPool,
        grace_seconds: float,
        on_fault: Callable[[], None],
        agent_url: str | None = None,
    ) -> None:
        """`on_fault` is called after each call for which the server was gone, silent, or answered wrongly.

        `agent_url` is the only address at which seats may be; None leaves it to the server.
        """
        self._agent_url = agent_url
        self._grace_seconds = grace_seconds
        self._base = "http://control" if control_url.startswith("unix:") else control_url
        self.elsewhere = None if control_url.startswith("unix:") or is_loopback(control_url) else URL(control_url).host
        """Host name of the server if it is on another machine; else None."""
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._control, self._agents, self._on_fault = control, agents, on_fault

    async def call(
        self, method: str, path: str, answer: type[AnswerT], body: BaseModel | None = None, *, seconds: float
    ) -> AnswerT:
        """Make one call of the control plane.

        Raises:
            HubError: the error that the server reported, with its own type.
            ServerFault: the server is gone, does not answer, or answers wrongly.
        """
        what = f"{method} {path.partition('?')[0]}"
        try:
            data = b"" if body is None else body.model_dump_json().encode()
        except PydanticSerializationError as error:
            raise AgentError(f"what was said cannot be sent ({what}): {error}") from None
        url = URL(self._base + path, encoded=True)
        limit = seconds + self._grace_seconds
        headers = self._headers
        if (parent := TRACEPARENT.get()) is not None:
            headers = {**headers, TRACE_HEADER: parent}
        status, raw, _ = await self._exchange(self._control, method, url, data, headers, limit, what)
        try:
            if status < 400:
                return answer.model_validate_json(raw)
            failure = Failure.model_validate_json(raw)
        except ValidationError as error:
            if status in (401, 403):
                raise CredentialError(f"the environment server refused access ({what}, HTTP {status})") from None
            raise self.fault(
                f"answered {what} (HTTP {status}) with what is no {answer.__name__}: {invalid_fields(error)}"
            ) from None
        raise error_of(failure.error)

    async def ask(
        self, method: str, path: str, answer: type[AnswerT], body: BaseModel | None = None, *, seconds: float
    ) -> AnswerT:
        """Make a call for one episode: a refusal of the server becomes an error of that episode, not of the run.

        Raises:
            EpisodeError: the error that the server reported, or the server's own fault.
            NotOffered: the environment does not offer what was asked.
        """
        try:
            return await self.call(method, path, answer, body, seconds=seconds)
        except (EpisodeError, NotOffered):
            raise
        except HubError as error:
            raise TaskError(f"the environment server refused: {error}", retryable=False) from error

    async def download(self, path: str, most_bytes: int, *, seconds: float) -> bytes:
        """Download the bytes at a path of the control plane, for one episode.

        Raises:
            EpisodeError: the error that the server reported, or the server's own fault.
        """
        what = f"GET {path}"
        url, limit = URL(self._base + path, encoded=True), seconds + self._grace_seconds
        status, raw, _ = await self._exchange(self._control, "GET", url, b"", self._headers, limit, what)
        if status < 400:
            if len(raw) > most_bytes:
                raise self.fault(f"answered {what} with more than {most_bytes >> 20} MiB")
            return raw
        try:
            error = error_of(Failure.model_validate_json(raw).error)
        except ValidationError:
            if status != 404:
                raise self.fault(f"answered {what} with HTTP {status} and no reason") from None
            raise TaskError(f"it has nothing at {what}, which its contract may lack", retryable=False) from None
        raise error if isinstance(error, EpisodeError) else TaskError(str(error), retryable=False) from None

    async def post_to_agents(
        self, url: URL, body: bytes, headers: dict[str, str], *, seconds: float, what: str
    ) -> WholeAnswer:
        """Make one call to a seat's MCP endpoint.

        Raises:
            ServerFault: there is no answer in time, or it is too large.
        """
        return await self._exchange(self._agents, "POST", url, body, headers, seconds + self._grace_seconds, what)

    async def _exchange(
        self,
        pool: HttpPool,
        method: str,
        url: URL,
        data: bytes,
        headers: dict[str, str],
        seconds: float,
        what: str,
    ) -> WholeAnswer:
        if pool.is_closed:
            raise self.fault(f"is gone ({what}: it was given up)")
        try:
            return await pool.exchange(method, url, data, headers, seconds=seconds)
        except AnswerTooSlow:
            raise self.fault(f"did not answer {what} within {seconds:g} s") from None
        except AnswerTooLarge:
            raise self.fault(f"answered {what} with more than {MAX_ANSWER_BYTES >> 20} MiB") from None
        except NotConnected as error:
            raise self.fault(f"cannot be reached ({what} of {self._base}: {error})") from error
        except (ValueError, NoAnswer) as error:
            raise self.fault(f"is gone ({what}: {describe(error)})") from error

    def fault(self, words: str) -> ServerFault:
        """Report a fault of the server to `on_fault`; returns the error to raise."""
        self._on_fault()
        return ServerFault(f"the environment server {words}")

    def check_seat(self, url: URL) -> None:
        """Check the address of a seat that the server gave: one behind a wall would have the hub call another for it.

        Raises:
            ServerFault: it is not where this server's seats are.
        """
        if self._agent_url is not None and url.origin() != URL(self._agent_url):
            raise self.fault(f"gave a seat an address that is not its own, {url.host!r}")

    async def info(self) -> EnvironmentInfo:
        """Read the server's description of its environment.

        Raises:
            ConfigError: the server speaks another version of the contract.
            HubError: the server refuses, or does not answer.
        """
        path = "/v1/environment"
        spoken = await self.call("GET", path, _Spoken, seconds=INFO_SECONDS)
        if spoken.contract != CONTRACT:
            raise ConfigError(
                f"environment {spoken.name!r} is served under contract version {spoken.contract}, "
                f"this hub speaks version {CONTRACT}; install matching versions"
            )
        return await self.call("GET", path, EnvironmentInfo, seconds=INFO_SECONDS)

    async def is_healthy(self, seconds: float) -> bool:
        """Whether the server answers within `seconds`. A failure is not reported to `on_fault`."""
        if self._control.is_closed:
            return False
        try:
            return (await self._control.exchange("GET", self._base + "/health", seconds=seconds)).status == 200
        except NoAnswer:
            return False


class _Spoken(BaseModel):
    """The fields of `EnvironmentInfo` that every version of the contract has."""

    model_config = ConfigDict(extra="ignore")

    name: str
    contract: int


@asynccontextmanager
async def connect(
    control_url: str,
    token: str,
    grace_seconds: float = GRACE_SECONDS,
    on_fault: Callable[[], None] = lambda: None,
    agent_url: str | None = None,
) -> AsyncGenerator[ServerConnection]:
    """Open connection pools to a server's control plane and MCP endpoints; they are closed on exit.

    `grace_seconds` is added to each call's deadline, which the server itself keeps.
    """
    unix_path = control_url.removeprefix("unix:") if control_url.startswith("unix:") else None
    async with open_pool(unix_path) as control, open_pool() as agents:
        yield ServerConnection(control_url, token, control, agents, grace_seconds, on_fault, agent_url)
