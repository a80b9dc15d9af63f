"""Controls an environment that another process hosts."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from urllib.parse import quote, urlencode

import anyio
from anyio import to_thread
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from rollouthub.errors import DataError, HubError, TaskError, VerifierError, invalid_fields
from rollouthub.hosting.client.remote_episode import RemoteEpisode
from rollouthub.hosting.client.remote_media import RemoteMedia
from rollouthub.hosting.client.sent_media import sent_media
from rollouthub.hosting.client.server_connection import AnswerT, ServerConnection, ServerFault
from rollouthub.hosting.control_wire import (
    BadCard,
    BatchEntry,
    BatchRequest,
    Card,
    CardPage,
    GroupRequest,
    MediaBody,
    OpenedEpisode,
    OpenEpisode,
    ShownBatchAnswer,
    ShownBatchRequest,
    ShownGroupRequest,
    ShownGroupVerdict,
    TaskKey,
    error_of,
    media_in,
)
from rollouthub.hosting.local.group_scores import group_seconds
from rollouthub.hosting.local.host import logger
from rollouthub.hosting.local.submitted_contents import judged_with_media, submissions_of
from rollouthub.limits import Deadlines
from rollouthub.protocols import EnvironmentInfo, Episode, TaskCard
from rollouthub.score import SampleGroup, Score, Submission
from rollouthub.task import BadRow, Public

MOST_LISTINGS = 4
"""Most tries to read one page of tasks."""
LIST_SECONDS = 120.0
"""Seconds that a page of tasks may take: for the first one, the server may have to load a data set."""
HURRIED_SECONDS = 2.0
"""Seconds to wait for an episode to close if the run was cancelled; the server then closes it by itself."""


class RemotePublic(Public):
    """The public half of a task whose class is not known in this process."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """A task card read from a server."""

    public: Public
    split: str
    digest: str
    seed: int
    has_reference: bool | None = None

    @property
    def key(self) -> TaskKey:
        return TaskKey(id=self.public.id, split=self.split, seed=self.seed)


class RestartableServer(Protocol):
    """An environment server that may be restarted; gives the connection to the current one."""

    async def connection(self) -> ServerConnection:
        """The connection to the server, after a restart if it was gone.

        Raises:
            TaskError: the server does not start.
        """
        ...


@runtime_checkable
class WatchedServer(RestartableServer, Protocol):
    """A server that is monitored, and may be down for a while or for good."""

    @property
    def is_up(self) -> bool:
        """Whether the server can be used now, as far as is known."""
        ...


class RemoteHost:
    """The `EnvironmentHost` of an environment that another process serves."""

    def __init__(self, info: EnvironmentInfo, server: RestartableServer) -> None:
        self.info = info
        self._tools = {tool.name: tool for tool in info.tools}
        self._server = server
        self._media = RemoteMedia()

    @property
    def servers_up(self) -> Sequence[bool]:
        """For each server, whether it can be used now, as far as is known."""
        return [self._server.is_up] if isinstance(self._server, WatchedServer) else []

    async def tasks(self, split: str, seed: int) -> AsyncIterator[TaskCard | BadRow]:
        """The cards of a split, read page by page.

        Raises:
            UsageError: there is no such split, or its tasks cannot be made.
        """
        cursor: str | None = None
        while True:
            query = {"split": split, "seed": str(seed)} | ({} if cursor is None else {"cursor": cursor})
            page = await self._list(f"/v1/tasks?{urlencode(query)}")
            for card in page.cards:
                yield _bad_row(card) if isinstance(card, BadCard) else _task(card, seed)
            cursor = page.next_cursor
            if cursor is None:
                return
            if not page.cards:
                raise ServerFault("the environment server listed an empty page, and says that more follow")

    async def _list(self, path: str) -> CardPage:
        """Read a page of tasks; if the server dies, read it again after the restart."""
        for _ in range(MOST_LISTINGS - 1):
            connection = await self._server.connection()
            try:
                return await connection.call("GET", path, CardPage, seconds=LIST_SECONDS)
            except ServerFault as error:
                logger.warning("the tasks of %s are asked for again: %s", self.info.name, error)
        connection = await self._server.connection()
        return await connection.call("GET", path, CardPage, seconds=LIST_SECONDS)

    async def find_task(self, split: str, task_id: str, seed: int) -> TaskCard:
        """The card of one task.

        Raises:
            UsageError: there is no such split or task.
        """
        query = urlencode({"split": split, "seed": str(seed)})
        connection = await self._server.connection()
        path = f"/v1/tasks/{quote(task_id, safe='')}?{query}"
        return _task(await connection.call("GET", path, Card, seconds=LIST_SECONDS), seed)

    async def score(self, task: TaskCard, submission: Submission, *, seed: int, deadlines: Deadlines) -> Score:
        """Score a submission without an episode.

        Raises:
            NotOffered: the verifier needs the state of an episode.
            VerifierError: there is no score.
        """
        assert isinstance(task, RemoteTask), "a host scores only its own tasks"
        request = BatchRequest(
            entries=(BatchEntry(task=task.key, submission=submission, seed=seed),), deadlines=deadlines
        )
        media: dict[str, bytes] = {}
        if self.info.takes_media:
            media, sent = await to_thread.run_sync(sent_media, [submission])
            request = ShownBatchRequest(**dict(request), media=sent)
        answer = await self._judged("/v1/verify", ShownBatchAnswer, request, deadlines.verify)
        media |= _media_in(answer.media)
        if len(answer.verdicts) != 1:
            raise VerifierError(f"the environment server gave {len(answer.verdicts)} verdicts on one submission")
        (verdict,) = answer.verdicts
        if verdict.score is not None:
            return judged_with_media(verdict.score, media)
        if verdict.error is not None:
            raise error_of(verdict.error)
        raise VerifierError("the environment server gave neither a score nor a reason")

    async def score_group(
        self, task: TaskCard, group: SampleGroup, *, seed: int, deadlines: Deadlines
    ) -> Sequence[Score]:
        """Score all members of a group together.

        Raises:
            NotOffered: the environment scores each sample by itself.
            VerifierError: there are no scores.
        """
        assert isinstance(task, RemoteTask), "a host scores only its own tasks"
        request = GroupRequest(task=task.key, seed=seed, group=group, deadlines=deadlines)
        media: dict[str, bytes] = {}
        if self.info.takes_media:
            media, sent = await to_thread.run_sync(sent_media, submissions_of(group))
            request = ShownGroupRequest(**dict(request), media=sent)
        seconds = group_seconds(deadlines, group)
        answer = await self._judged("/v1/score_group", ShownGroupVerdict, request, seconds)
        media |= _media_in(answer.media)
        if len(answer.scores) != len(group.members):
            raise VerifierError(
                f"the environment server gave {len(answer.scores)} scores for {len(group.members)} members"
            )
        return [judged_with_media(score, media) for score in answer.scores]

    async def _judged(self, path: str, answer: type[AnswerT], request: BaseModel, seconds: float) -> AnswerT:
        """Ask for verdicts; a server that is gone or wrong is the verifier's fault."""
        try:
            connection = await self._server.connection()
            return await connection.ask("POST", path, answer, request, seconds=seconds)
        except TaskError as error:
            raise VerifierError(str(error), retryable=error.retryable) from error

    @asynccontextmanager
    async def open(
        self, task: TaskCard, *, seed: int, deadlines: Deadlines, state: JsonValue = None
    ) -> AsyncGenerator[Episode]:
        """Open an episode on the server; it is closed on exit.

        Raises:
            TaskError: setup failed or took too long, or the server is gone.
            NotOffered: a state was given, and the environment restores none.
        """
        assert isinstance(task, RemoteTask), "a host opens only its own tasks"
        request = OpenEpisode(
            task=task.key, seed=seed, deadlines=deadlines, state=state, ttl_seconds=deadlines.episode * 1.1
        )
        connection = await self._server.connection()
        # Cancelled before the answer is there, the call hangs up, and the server gives the episode up.
        opened = await connection.ask("POST", "/v1/episodes", OpenedEpisode, request, seconds=deadlines.setup)
        takes_turns = self.info.takes_turns
        takes_media = self.info.takes_media
        episode = RemoteEpisode(
            opened.id, connection, deadlines, self._media, takes_turns=takes_turns, takes_media=takes_media
        )
        try:
            if opened.tools_digest != self.info.tools_digest:
                raise TaskError(
                    f"the environment server offers other tools ({opened.tools_digest}) "
                    f"than those pinned ({self.info.tools_digest})",
                    retryable=False,
                )
            await episode.take_seats(opened.seats, self.info.seats, self._tools)
            yield episode
        finally:
            await self._close(episode)

    async def _close(self, episode: RemoteEpisode) -> None:
        is_cancelled = anyio.current_effective_deadline() == -math.inf
        try:
            with anyio.CancelScope(shield=True):  # bounded: every call has a deadline
                with anyio.move_on_after(HURRIED_SECONDS if is_cancelled else None):
                    await episode.close()
        except HubError as error:
            logger.warning("an episode of %s did not close: %s", self.info.name, error)


def _task(card: Card, seed: int) -> RemoteTask:
    try:
        public = RemotePublic.model_validate(card.public)
        return RemoteTask(public, card.split, card.digest, seed, card.has_reference)
    except ValidationError as error:
        raise ServerFault(f"the environment server listed what is no task: {invalid_fields(error)}") from None


def _media_in(bodies: Sequence[MediaBody]) -> dict[str, bytes]:
    try:
        return media_in(bodies)
    except ValueError as error:
        raise VerifierError(f"the environment server gave media of a verdict wrongly: {error}") from error


def _bad_row(card: BadCard) -> BadRow:
    return BadRow(DataError(card.problem, card.file, card.line))
