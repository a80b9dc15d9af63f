"""The control plane of a serving hub: HTTP and JSON for clients that open episodes, with a credential that no agent
holds.
"""

from collections.abc import Mapping
from typing import ClassVar

from rollouthub.errors import HubError, TaskError, UsageError
from rollouthub.gateway.sessions.service import HubService, TooMany
from rollouthub.gateway.sessions.session import report_of
from rollouthub.gateway.sessions.sessions_wire import EnvironmentList, EpisodePage, EpisodeReport, EpisodeRequest
from rollouthub.hosting.control_wire import ControlProblem, problem_of
from rollouthub.hosting.server.control_http import (
    METRICS_TEXT,
    ControlHttp,
    NoRoute,
    WrongMethod,
    body_of,
    first_event,
    integer,
    json_of,
    need,
    query_of,
    send_events,
)
from rollouthub.hosting.server.served_episodes import Conflict
from rollouthub.hosting.server.task_pages import MOST_ON_A_PAGE, PAGE, TaskPages
from rollouthub.http.asgi import Guard, Receive, Scope, Send, answer, until_gone


class ServiceControl(ControlHttp):
    """An ASGI application: every route of a serving hub's control plane."""

    statuses: ClassVar[Mapping[type[HubError], int]] = {Conflict: 409, TooMany: 429}

    def __init__(self, service: HubService, token: str, guard: Guard | None) -> None:
        """`guard` checks Host and Origin headers; None for a unix socket, which browsers cannot reach."""
        super().__init__(token, guard)
        self._service = service
        self._listings = {name: TaskPages(served.opened.host) for name, served in service.served.items()}

    def problem(self, error: HubError) -> ControlProblem:
        """An error as the client gets it; a full service asks the client to try again later."""
        if isinstance(error, Conflict | TooMany):
            return ControlProblem(type="TaskError", message=str(error), retryable=isinstance(error, TooMany))
        return problem_of(error)

    async def serve(self, parts: list[str], scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that has the credential."""
        match parts:
            case ["metrics"]:
                need(scope, "GET")
                await answer(send, 200, self._metrics(), METRICS_TEXT)
            case ["v1", "episodes", episode_id, "events"]:
                need(scope, "GET")
                session = self._service.find(episode_id)
                if session is None:
                    await self._service.report(episode_id)  # which says so where there never was one
                    raise Conflict(f"episode {episode_id!r} has ended; its record is in the run's store")
                await send_events(session.events, first_event(scope), scope, send)
            case _:
                await answer(send, 200, await self._answer(parts, scope, receive))

    async def _answer(self, parts: list[str], scope: Scope, receive: Receive) -> bytes:
        """The body of a successful answer.

        Raises:
            HubError: the request fails.
        """
        service = self._service
        match parts:
            case ["v1", "environments"]:
                need(scope, "GET")
                return json_of(EnvironmentList(environments=tuple(each.card for each in service.served.values())))
            case ["v1", "environments", name, "tasks"]:
                need(scope, "GET")
                return await self._tasks(name, scope)
            case ["v1", "episodes"] if scope["method"] == "GET":
                return json_of(EpisodePage(episodes=tuple(session.report() for session in service.sessions)))
            case ["v1", "episodes"]:
                return await self._open(scope, receive)
            case ["v1", "episodes", episode_id]:
                return json_of(await self._look(episode_id, scope))
            case ["v1", "episodes", episode_id, "seal" | "verify" as verb]:
                need(scope, "POST")
                return json_of(await self._end(episode_id, verb))
            case _:
                raise NoRoute

    async def _tasks(self, name: str, scope: Scope) -> bytes:
        served = self._service.environment(name)
        query = query_of(scope, "split", "cursor", "limit")
        limit = integer(query, "limit", PAGE)
        if not 1 <= limit <= MOST_ON_A_PAGE:
            raise UsageError(f"limit = {limit}: a page has 1 to {MOST_ON_A_PAGE} tasks")
        cursor = query.get("cursor")
        if cursor is not None:
            return await self._listings[name].page(query.get("split"), None, cursor, limit)
        split = served.task_picker.split(query.get("split"))
        return await self._listings[name].page(split, served.task_picker.seed, None, limit)

    async def _open(self, scope: Scope, receive: Receive) -> bytes:
        request = await body_of(scope, receive, EpisodeRequest)
        with until_gone(scope):
            return json_of((await self._service.open(request)).ticket())
        raise TaskError("who asked for the episode has left")

    async def _look(self, episode_id: str, scope: Scope) -> EpisodeReport:
        if scope["method"] == "DELETE":
            session = self._service.find(episode_id)
            return await self._service.report(episode_id) if session is None else report_of(await session.close())
        if scope["method"] != "GET":
            raise WrongMethod
        return await self._service.report(episode_id)

    async def _end(self, episode_id: str, verb: str) -> EpisodeReport:
        session = self._service.find(episode_id)
        if session is None:
            return await self._service.report(episode_id)
        if verb == "verify":
            return report_of(await session.verify())
        await session.seal()
        return session.report()

    def _metrics(self) -> bytes:
        metrics = self._service.gateway.metrics
        metrics.reaped = self._service.expiry.count
        return metrics.text()
