"""A client of a serving hub's control plane: opens, verifies and closes episodes."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ValidationError

from rollouthub.errors import CredentialError, HubError, TaskError
from rollouthub.gateway.sessions.sessions_wire import (
    EnvironmentCard,
    EnvironmentList,
    EpisodePage,
    EpisodeReport,
    EpisodeRequest,
    EpisodeTicket,
)
from rollouthub.hosting.control_wire import BadCard, Card, CardPage, Failure, error_of
from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.http.no_answer import AnswerTooSlow, NoAnswer

SECONDS = 600.0
"""Default timeout of one call in seconds: opening an episode prepares its environment, and verifying may run a
program.
"""

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class HubClient:
    """A client of one hub. Example:

    async with HubClient("http://127.0.0.1:8701", token) as hub:
        async with hub.episode(EpisodeRequest(environment="arithmetic")) as ticket:
            ...  # an agent plays at ticket.agent_url
            report = await hub.verify(ticket.id)
    """

    def __init__(self, control_url: str, token: str, *, seconds: float = SECONDS) -> None:
        """`control_url` is `http://HOST:PORT` or `unix:PATH`, as the hub prints it."""
        self._url, self._token, self._seconds = control_url, token, seconds
        self._base = "http://control" if control_url.startswith("unix:") else control_url.rstrip("/")
        self._opened = AsyncExitStack()
        self._pool: HttpPool | None = None

    async def __aenter__(self) -> Self:
        unix_path = self._url.removeprefix("unix:") if self._url.startswith("unix:") else None
        headers = {"Authorization": f"Bearer {self._token}"}
        self._pool = await self._opened.enter_async_context(open_pool(unix_path, headers))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    async def environments(self) -> tuple[EnvironmentCard, ...]:
        """The environments that the hub serves.

        Raises:
            HubError: the hub reports an error, or cannot be reached. The same holds for the other methods.
        """
        return (await self._ask("GET", "/v1/environments", EnvironmentList)).environments

    async def tasks(self, environment: str, split: str | None = None) -> AsyncIterator[Card | BadCard]:
        """The public cards of all tasks of a split, requested page by page."""
        query = {} if split is None else {"split": split}
        path = f"/v1/environments/{quote(environment, safe='')}/tasks"
        while True:
            page = await self._ask("GET", f"{path}?{urlencode(query)}", CardPage)
            for card in page.cards:
                yield card
            if page.next_cursor is None:
                return
            query = {"cursor": page.next_cursor}

    async def open(self, request: EpisodeRequest) -> EpisodeTicket:
        """Open an episode. With an idempotency key, the call can be repeated safely if no answer arrived."""
        return await self._ask("POST", "/v1/episodes", EpisodeTicket, request)

    @asynccontextmanager
    async def episode(self, request: EpisodeRequest) -> AsyncGenerator[EpisodeTicket]:
        """Open an episode; it is closed with the context, unscored if it was not verified."""
        ticket = await self.open(request)
        try:
            yield ticket
        finally:
            await self.close(ticket.id)

    async def episodes(self) -> tuple[EpisodeReport, ...]:
        """Reports of the episodes that have not ended."""
        return (await self._ask("GET", "/v1/episodes", EpisodePage)).episodes

    async def report(self, episode_id: str) -> EpisodeReport:
        """The report of an episode: its present state, or how it ended."""
        return await self._ask("GET", _path(episode_id), EpisodeReport)

    async def seal(self, episode_id: str) -> EpisodeReport:
        """End the agent's time in an episode."""
        return await self._ask("POST", f"{_path(episode_id)}/seal", EpisodeReport)

    async def verify(self, episode_id: str) -> EpisodeReport:
        """End the agent's time and wait for the score; a repeated call returns the same score."""
        return await self._ask("POST", f"{_path(episode_id)}/verify", EpisodeReport)

    async def close(self, episode_id: str) -> EpisodeReport:
        """End an episode; it is unscored unless it has a score already."""
        return await self._ask("DELETE", _path(episode_id), EpisodeReport)

    async def _ask(self, method: str, path: str, answer: type[AnswerT], body: BaseModel | None = None) -> AnswerT:
        assert self._pool is not None, "the client is used within its context"
        data = b"" if body is None else body.model_dump_json(exclude_unset=True).encode()
        what = f"{method} {path.partition('?')[0]}"
        try:
            status, raw, _ = await self._pool.exchange(method, self._base + path, data, seconds=self._seconds)
        except AnswerTooSlow:
            raise TaskError(f"the hub did not answer {what} within {self._seconds:g} s") from None
        except NoAnswer as error:
            raise TaskError(f"the hub at {self._url} cannot be reached ({what}): {error}") from error
        try:
            if status < 400:
                return answer.model_validate_json(raw)
            raise _refusal(Failure.model_validate_json(raw), status)
        except ValidationError:
            raise TaskError(f"the hub answered {what} (HTTP {status}) with what is no {answer.__name__}") from None


def _path(episode_id: str) -> str:
    return f"/v1/episodes/{quote(episode_id, safe='')}"


def _refusal(failure: Failure, status: int) -> HubError:
    if status == 401:
        return CredentialError(f"the hub refused the credential: {failure.error.message}")
    return error_of(failure.error)
