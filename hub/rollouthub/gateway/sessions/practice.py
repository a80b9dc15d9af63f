"""Practice: fixed URLs to try an environment, one task after another, recorded and never scored."""

import logging
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote

import anyio
import msgspec
from mcp_types import CallToolResult, TextContent, Tool

from rollouthub.engine.external_calls import OutsideCalls
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.errors import HubError
from rollouthub.gateway.exposed_seat import RecordedPlane
from rollouthub.gateway.rate_limit import TokenBucket
from rollouthub.gateway.sessions.service import HubService
from rollouthub.gateway.sessions.session import AgentSession
from rollouthub.hosting.local.toolbox import GET_TASK, SUBMIT
from rollouthub.hosting.server.agent_plane import BUSY, MAX_BODY_BYTES, NOT_FOUND, TOO_LARGE, AgentPlaneApp, new_user
from rollouthub.hosting.server.served_episode import ServedEpisode
from rollouthub.http.asgi import Receive, Scope, Send, TooLarge, again, answer, read_body
from rollouthub.messages import Message
from rollouthub.protocols import EnvironmentInfo, SeatAddress
from rollouthub.task import AuditFacts
from rollouthub.tools import text_result

logger = logging.getLogger(__name__)

MOST_TABLES = 200
"""Most practice clients at once; the least recently used one without an open task is dropped for a new one."""
NEXT = "This was practice, and is not scored. Call get_task for the next task."
OVER = "This task is over. Call get_task for the next one."
_KEY = re.compile(r"[A-Za-z0-9._~-]{8,128}")
_DEALING = ("initialize", "server/discover")
"""MCP methods whose answers contain the task, so that they start a new task if the last is over."""
_FULL = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"No task can be opened now; try again later."}}'
_BAD_KEY = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":'
    b'"A practice key has 8 to 128 letters, digits or any of ._~- in it."}}'
)


class _PracticeRequest(msgspec.Struct):
    method: str = ""


_requests = msgspec.json.Decoder(_PracticeRequest)


class Unexposed:
    """A gateway that exposes no seat: a practice episode's seat is served by its practice table."""

    def __init__(self, url: str) -> None:
        self._url = url

    @asynccontextmanager
    async def expose(
        self, seat: EpisodeSeat, info: EnvironmentInfo, close_seconds: float
    ) -> AsyncGenerator[SeatAddress]:
        """Yield the practice URL, without a token of the seat."""
        yield SeatAddress(agent_url=self._url, llm_url=None, api_key="", model=None, over=seat.over)


class _Endless:
    """The episode under which a practice table is served: it never ends, while practice episodes within it come and
    go.
    """

    is_sealed = False
    answer = None
    faults = role_calls = sandboxes = artifacts = missing_artifacts = ()

    def __init__(self, name: str) -> None:
        self.id = name
        self.seats: dict[str, Any] = {}

    async def reference(self, seat: str | None = None) -> Sequence[Message]:
        """There is no reference solution."""
        return ()

    async def audit_facts(self) -> AuditFacts:
        """There is nothing to audit."""
        return AuditFacts()

    async def snapshot(self) -> None:
        """There is no snapshot."""

    async def leave(self, seat: str) -> None:
        """Nothing to do: no other seat waits."""

    async def seal(self) -> None:
        """Nothing to do: it is never sealed."""

    async def verify(self, submission: object) -> Any:
        """Never called: practice is not scored."""
        raise AssertionError("practice is never verified")

    conclude = verify

    async def close(self) -> None:
        """Nothing to close."""


class Table:
    """One practice client's place, found by its URL; its tools and task are those of the present practice episode."""

    def __init__(self, service: HubService, environment: str, key: str) -> None:
        self._service, self._environment = service, environment
        self.token = ""
        """Empty: the table is found by its URL, without a token."""
        self._session: AgentSession | None = None
        self._plane: RecordedPlane | None = None
        self._opening = anyio.Lock()
        info = service.environment(environment).opened.host.info
        name = f"practice-{environment}-{key}"
        self.requests = 0
        self.served = ServedEpisode(
            _Endless(name),
            service.gateway.metrics,
            close_seconds=service.environment(environment).context.deadlines.close,
            expires_at=0.0,
            seed=0,
            digest=info.tools_digest,
        )
        self.seat = self.served.add_seat(self, info.seats[0], new_user(name, info.seats[0]))

    @property
    def is_over(self) -> bool:
        """Whether there is no task that can still be played."""
        session = self._session
        return session is None or session.state != "open" or any(seat.is_sealed for seat in session.seats.values())

    @property
    def is_new(self) -> bool:
        """Whether no task was ever opened here."""
        return self._session is None

    async def open_next_task(self) -> None:
        """Open the next task if the last is over.

        Raises:
            HubError: no task can be opened.
        """
        async with self._opening:
            if self.is_over:
                url = practice_url(self._service.gateway.base_url, self._environment)
                session = await self._service.practise(self._environment, Unexposed(url))
                seat = next(iter(session.seats.values()))
                self._plane = RecordedPlane(seat, OutsideCalls(seat))
                self._session = session

    # --- the seat's side of whatever is played ----------------------------------------------------------------------

    @property
    def messages(self) -> tuple[Message, ...]:
        """The task's messages."""
        return () if self._plane is None else self._plane.messages

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The task's tools."""
        return () if self._plane is None else self._plane.tools

    @property
    def task_tools(self) -> frozenset[str]:
        """The tools that only this task has."""
        return frozenset() if self._plane is None else self._plane.task_tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool of the task; once the task is over, `get_task` opens the next one."""
        if name == GET_TASK and self.is_over:
            try:
                await self.open_next_task()
            except HubError as error:
                logger.warning("no practice task could be opened: %s", error)
                return text_result("No task can be opened now; try again later.", is_error=True)
        if self.is_over or self._plane is None:
            return text_result(OVER, is_error=True)
        result = await self._plane.call_tool(name, arguments)
        if name == SUBMIT and not result.is_error:
            said = TextContent(text=NEXT)
            return result.model_copy(update={"content": [*result.content, said]})
        return result

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages; clients get them through the tool `reply`."""
        return None if self.is_over or self._plane is None else await self._plane.reply(messages)


class Practice:
    """An ASGI application: `/practice/{environment}/mcp`, and `/practice/{environment}/{key}/mcp` for a client's own
    place.
    """

    def __init__(self, service: HubService) -> None:
        self._service = service
        rate = service.rules.requests_per_second
        self._bucket = None if rate is None else TokenBucket(rate)
        """The rate limit of all practice clients together, because they have no credentials."""
        self._tables: OrderedDict[tuple[str, str], Table] = OrderedDict()
        self._names = {name for name, served in service.served.items() if len(served.opened.host.info.seats) == 1}

    @property
    def urls(self) -> tuple[str, ...]:
        """The practice URLs. Environments with several seats are left out, because one client plays one seat."""
        return tuple(practice_url(self._service.gateway.base_url, name) for name in sorted(self._names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        place = self._place(scope)
        if place is None:
            await answer(send, 404, NOT_FOUND)
            return
        if place[1] and not _KEY.fullmatch(place[1]):
            await answer(send, 400, _BAD_KEY)
            return
        if scope["method"] not in ("POST", "DELETE"):
            await answer(send, 405, headers=[(b"allow", b"POST, DELETE")])
            return
        is_due = self._bucket is None or self._bucket.take() == 0
        table = await self._table(*place) if is_due else None
        if table is None:
            await answer(send, 429, BUSY, headers=[(b"retry-after", b"1")])
            return
        table.requests += 1
        try:
            await self._serve(table, place[0], scope, receive, send)
        except TooLarge:
            await answer(send, 413, TOO_LARGE)
        finally:
            table.requests -= 1

    async def _serve(self, table: Table, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            body = await read_body(scope, receive, MAX_BODY_BYTES)
            receive = again(body, receive)
            if table.is_new or (_method(body) in _DEALING and table.is_over):
                try:
                    await table.open_next_task()
                except HubError as error:
                    logger.warning("no practice task could be opened: %s", error)
                    await answer(send, 503, _FULL, headers=[(b"retry-after", b"5")])
                    return
        await (await self._plane(name)).serve_seat(table.seat, scope, receive, send)

    async def _plane(self, name: str) -> AgentPlaneApp:
        return await self._service.gateway.plane_of(self._service.environment(name).opened.host.info)

    def _place(self, scope: Scope) -> tuple[str, str] | None:
        """The environment and key in a request's path; None if the path is not valid."""
        parts = [unquote(part) for part in scope["raw_path"].decode("latin-1").split("/")[2:]]
        match parts:
            case [name, "mcp"] if name in self._names:
                return name, ""
            case [name, key, "mcp"] if name in self._names and key:
                return name, key
            case _:
                return None

    async def _table(self, name: str, key: str) -> Table | None:
        """A client's table; None if there is no room for another."""
        table = self._tables.get((name, key))
        if table is None:
            if len(self._tables) >= MOST_TABLES:
                idle = next((place for place, each in self._tables.items() if each.is_over and not each.requests), None)
                if idle is None:
                    return None
                left = self._tables.pop(idle)
                left.served.closed.set()
                await (await self._plane(idle[0])).retire(left.served)
            table = self._tables[name, key] = Table(self._service, name, key)
        self._tables.move_to_end((name, key))
        return table


def practice_url(base_url: str, environment: str) -> str:
    """The practice URL of an environment."""
    return f"{base_url}/practice/{quote(environment, safe='')}/mcp"


def _method(body: bytes) -> str:
    try:
        return _requests.decode(body).method
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
