"""The control plane: HTTP and JSON for the hub alone, behind a credential that no agent holds."""

import base64
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar

import anyio
from anyio import to_thread
from pydantic import BaseModel

from rollouthub.errors import HubError, NotOffered, TaskError, UnknownNameError, UsageError
from rollouthub.hosting.control_wire import (
    Accompanied,
    ArtifactBodies,
    ArtifactBody,
    BatchAnswer,
    BatchEntry,
    ControlProblem,
    EpisodeStateBody,
    EpisodeVerdict,
    GroupVerdict,
    LeaveRequest,
    MediaBody,
    OpenEpisode,
    Reference,
    ReplyAnswer,
    ReplyRequest,
    ShownBatchAnswer,
    ShownBatchRequest,
    ShownGroupRequest,
    ShownGroupVerdict,
    ShownVerifyRequest,
    Verified,
    media_bodies,
    media_in,
    problem_of,
)
from rollouthub.hosting.local.shell_access import EnterableEpisode, OfferedShells, WaysIn
from rollouthub.hosting.local.shown_media import ShowingEpisode, with_media
from rollouthub.hosting.local.submitted_contents import group_with_contents, judged_media, with_contents
from rollouthub.hosting.server.control_http import (
    MEDIA_BYTES,
    METRICS_TEXT,
    ControlHttp,
    NoRoute,
    Query,
    WrongMethod,
    body_of,
    first_event,
    integer,
    json_of,
    need,
    parsed,
    query_of,
    send_events,
)
from rollouthub.hosting.server.served_episodes import Conflict, Episodes, Unknown
from rollouthub.hosting.server.server_metrics import Metrics
from rollouthub.hosting.server.task_pages import MOST_ON_A_PAGE, PAGE, TaskPages, card_json
from rollouthub.http.asgi import Guard, Receive, Scope, Send, answer, read_body, until_gone
from rollouthub.limits import Deadlines
from rollouthub.protocols import EnvironmentHost
from rollouthub.score import Score, Submission

logger = logging.getLogger(__name__)

BATCH_CONCURRENCY = 32
MAX_MEDIA_BODY_BYTES = 416 * 2**20
"""Most bytes of submissions with their media in base64; a hub sends 256 MiB of media at the most."""
MOST_JUDGED_BYTES = 32 * 2**20
"""Most bytes of media that an answer brings; the hub reads 64 MiB."""


class _NoReference(NotOffered):
    """A task without a reference solution."""


class ControlPlane(ControlHttp):
    """An ASGI application: every route of the contract's control plane."""

    statuses: ClassVar[Mapping[type[HubError], int]] = {Unknown: 404, _NoReference: 404, Conflict: 409}

    def __init__(
        self, host: EnvironmentHost, episodes: Episodes, metrics: Metrics, token: str, guard: Guard | None
    ) -> None:
        """`guard` checks Host and Origin; None where a unix socket keeps browsers out."""
        super().__init__(token, guard)
        self._host, self._episodes, self._metrics = host, episodes, metrics
        self._listing = TaskPages(host)
        info = host.info.model_copy(update={"isolation": "process"})
        self._environment = info.model_dump_json(by_alias=True, exclude_none=True).encode()

    async def serve(self, parts: list[str], scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of the hub."""
        if len(parts) == 4 and parts[1] == "episodes" and parts[3] == "events" and scope["method"] == "GET":
            await self._stream(parts[2], first_event(scope), scope, send)
        elif parts == ["metrics"]:
            need(scope, "GET")
            await answer(send, 200, self._metrics.text(), METRICS_TEXT)
        elif len(parts) == 5 and parts[1] == "episodes" and parts[3] == "media":
            need(scope, "GET")
            await answer(send, 200, self._media(parts[2], parts[4]), MEDIA_BYTES)
        else:
            await answer(send, 200, await self._answer(parts, scope, receive))

    def problem(self, error: HubError) -> ControlProblem:
        """An error as its caller gets it; of an episode that is gone, another attempt may fare better."""
        if isinstance(error, Unknown | Conflict):
            return ControlProblem(type="TaskError", message=str(error), retryable=True)
        return problem_of(error)

    async def _answer(self, parts: list[str], scope: Scope, receive: Receive) -> bytes:
        """The body of a success.

        Raises:
            HubError: there is none.
        """
        match parts:
            case ["v1", "episodes"]:
                return await self._open(scope, receive)
            case ["v1", "episodes", episode_id]:
                if scope["method"] == "DELETE":
                    return json_of(await self._episodes.close(episode_id))
                need(scope, "GET")
                closed = self._episodes.closed(episode_id)
                return json_of(closed or self._episodes.find(episode_id).status())
            case ["v1", "episodes", episode_id, verb]:
                return await self._act(episode_id, verb, scope, receive)
            case ["v1", "environment"]:
                need(scope, "GET")
                return self._environment
            case ["v1", "tasks"]:
                need(scope, "GET")
                return await self._list(scope)
            case ["v1", "tasks", *rest, "reference"] if rest:
                need(scope, "GET")
                return await self._task_reference("/".join(rest), scope)
            case ["v1", "tasks", *rest]:
                need(scope, "GET")
                query = query_of(scope, "split", "seed")
                split, seed = self._split(query), integer(query, "seed")
                return card_json(await self._host.find_task(split, "/".join(rest), seed))
            case ["v1", "verify"]:
                request = await body_of(scope, receive, ShownBatchRequest, MAX_MEDIA_BODY_BYTES)
                return await to_thread.run_sync(json_of, await self._score(request))
            case ["v1", "score_group"]:
                group = await body_of(scope, receive, ShownGroupRequest, MAX_MEDIA_BODY_BYTES)
                return await to_thread.run_sync(json_of, await self._score_group(group, scope))
            case _:
                raise NoRoute

    def _split(self, query: Query) -> str:
        return query.get("split", self._host.info.splits[0])

    async def _list(self, scope: Scope) -> bytes:
        query = query_of(scope, "split", "seed", "cursor", "limit")
        seed = integer(query, "seed") if "seed" in query else None
        limit = integer(query, "limit", PAGE)
        if not 1 <= limit <= MOST_ON_A_PAGE:
            raise UsageError(f"limit = {limit}: a page has 1 to {MOST_ON_A_PAGE} tasks")
        return await self._listing.page(query.get("split"), seed, query.get("cursor"), limit)

    async def _task_reference(self, task_id: str, scope: Scope) -> bytes:
        query = query_of(scope, "split", "seed")
        card = await self._host.find_task(self._split(query), task_id, integer(query, "seed"))
        async with self._host.open(card, seed=0, deadlines=Deadlines()) as episode:
            messages = await episode.reference()
        if not messages:
            raise _NoReference(f"task {task_id!r} has no reference solution")
        return json_of(Reference(messages=tuple(messages)))

    async def _open(self, scope: Scope, receive: Receive) -> bytes:
        request = await body_of(scope, receive, OpenEpisode)
        with until_gone(scope):
            return json_of(await self._episodes.open(request))
        raise TaskError("the client that asked for the episode has disconnected")

    async def _act(self, episode_id: str, verb: str, scope: Scope, receive: Receive) -> bytes:
        act = _ACTIONS.get((scope["method"], verb))
        if act is None:
            if any(known == verb for _, known in _ACTIONS):
                raise WrongMethod
            raise NoRoute
        return json_of(await act(self, episode_id, scope, receive))

    async def _seal(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        return (await self._episodes.seal(episode_id)).status()

    async def _verify(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        body = await read_body(scope, receive, MAX_MEDIA_BODY_BYTES)
        request = parsed(body, ShownVerifyRequest) if body else ShownVerifyRequest()
        given = await to_thread.run_sync(_given_media, request)
        served = await self._episodes.seal(episode_id)
        submission = with_media(with_contents(request.submission, given), served.episode)
        score = await served.verify(submission, unless_broken=request.unless_broken)
        return Verified(score=score, status=served.status())

    async def _reply(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        request = await body_of(scope, receive, ReplyRequest)
        episode = self._episodes.find(episode_id).episode
        seats, said = episode.seats, request.messages
        if request.seat not in seats:
            raise UnknownNameError("seat", request.seat, seats)
        if isinstance(episode, ShowingEpisode):
            said = episode.with_media(said)
        with until_gone(scope):
            seat, before = seats[request.seat], seats[request.seat].tools
            messages = await seat.reply(said)
            reply = None if messages is None else tuple(messages)
            own = None if seat.tools is before else tuple(tool for tool in seat.tools if tool.name in seat.task_tools)
            return ReplyAnswer(messages=reply, task_tools=own)
        raise TaskError("the client that asked for the reply has disconnected")

    async def _leave(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        request = await body_of(scope, receive, LeaveRequest)
        served = self._episodes.find(episode_id)
        if request.seat not in served.episode.seats:
            raise UnknownNameError("seat", request.seat, served.episode.seats)
        await served.episode.leave(request.seat)
        return served.status()

    def _media(self, episode_id: str, digest: str) -> bytes:
        episode = self._episodes.find(episode_id).episode
        content = episode.media(digest) if isinstance(episode, ShowingEpisode) else None
        if content is None:
            raise UnknownNameError("media of this episode", digest[:80], ())
        return content

    async def _artifacts(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        found = self._episodes.find(episode_id).episode.artifacts
        bodies = (ArtifactBody(name=each.ref.name, data=base64.b64encode(each.data).decode()) for each in found)
        return ArtifactBodies(artifacts=tuple(bodies))

    async def _doors(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        episode = self._episodes.find(episode_id).episode
        return OfferedShells.of(await episode.ways_in() if isinstance(episode, EnterableEpisode) else WaysIn())

    async def _reference(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        episode, seat = self._episodes.find(episode_id).episode, query_of(scope, "seat").get("seat")
        if seat is not None and seat not in episode.seats:
            raise UnknownNameError("seat", seat[:80], tuple(episode.seats))
        return Reference(messages=tuple(await episode.reference(seat)))

    async def _audit_facts(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        return await self._episodes.find(episode_id).episode.audit_facts()

    async def _state(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        return EpisodeStateBody(state=await self._episodes.find(episode_id).episode.snapshot())

    async def _score(self, request: ShownBatchRequest) -> BatchAnswer:
        if not self._host.info.scores_transcripts:
            raise NotOffered(f"environment {self._host.info.name!r} scores episodes, not submissions alone")
        verdicts = [EpisodeVerdict()] * len(request.entries)
        limiter = anyio.CapacityLimiter(BATCH_CONCURRENCY)
        given = await to_thread.run_sync(_given_media, request)

        async def score(position: int, entry: BatchEntry) -> None:
            async with limiter:
                submission = with_contents(entry.submission, given)
                verdicts[position] = await self._verdict(entry, submission, request.deadlines)

        async with anyio.create_task_group() as tasks:
            for position, entry in enumerate(request.entries):
                tasks.start_soon(score, position, entry)
        answer = BatchAnswer(verdicts=tuple(verdicts))
        if request.media is None:
            return answer
        scores = [verdict.score for verdict in verdicts if verdict.score is not None]
        shown = await to_thread.run_sync(_shown_to_judges, scores, given)
        return ShownBatchAnswer(verdicts=answer.verdicts, media=shown)

    async def _verdict(self, entry: BatchEntry, submission: Submission, deadlines: Deadlines) -> EpisodeVerdict:
        key, outcome = entry.task, "scored"
        try:
            card = await self._host.find_task(key.split, key.id, key.seed)
            score = await self._host.score(card, submission, seed=entry.seed, deadlines=deadlines)
            return EpisodeVerdict(score=score)
        except HubError as error:
            outcome = type(error).__name__
            return EpisodeVerdict(error=problem_of(error))
        finally:
            self._metrics.verdicts[outcome] += 1

    async def _score_group(self, request: ShownGroupRequest, scope: Scope) -> GroupVerdict:
        key, outcome = request.task, "scored"
        try:
            given = await to_thread.run_sync(_given_media, request)
            with until_gone(scope):
                card = await self._host.find_task(key.split, key.id, key.seed)
                group, deadlines = group_with_contents(request.group, given), request.deadlines
                scores = tuple(await self._host.score_group(card, group, seed=request.seed, deadlines=deadlines))
                if request.media is None:
                    return GroupVerdict(scores=scores)
                return ShownGroupVerdict(scores=scores, media=await to_thread.run_sync(_shown_to_judges, scores, given))
            raise TaskError("the client that asked for the verdict has disconnected")
        except HubError as error:
            outcome = type(error).__name__
            raise
        finally:
            self._metrics.verdicts[outcome] += 1

    async def _stream(self, episode_id: str, after: int, scope: Scope, send: Send) -> None:
        """Send an episode's events as they come."""
        await send_events(self._episodes.find(episode_id).events, after, scope, send)


def _given_media(request: Accompanied) -> dict[str, bytes]:
    try:
        return media_in(request.media or ())
    except ValueError as error:
        raise UsageError(f"the media of the request cannot be read: {error}") from None


def _shown_to_judges(scores: Sequence[Score], given: Mapping[str, bytes]) -> tuple[MediaBody, ...]:
    """The media that judges were shown, without those that the hub has; as many as an answer can hold."""
    shown: dict[str, bytes] = {}
    for digest, content in judged_media(scores).items():
        if digest in given:
            continue
        if sum(map(len, shown.values())) + len(content) > MOST_JUDGED_BYTES:
            logger.warning("judges were shown more than can be kept; media %s is left out", digest)
            continue
        shown[digest] = content
    return media_bodies(shown)


_Action = Callable[[ControlPlane, str, Scope, Receive], Awaitable[BaseModel]]
_ACTIONS: dict[tuple[str, str], _Action] = {
    ("POST", "seal"): ControlPlane._seal,  # pyright: ignore[reportPrivateUsage]  # its own module
    ("POST", "verify"): ControlPlane._verify,  # pyright: ignore[reportPrivateUsage]
    ("POST", "reply"): ControlPlane._reply,  # pyright: ignore[reportPrivateUsage]
    ("POST", "leave"): ControlPlane._leave,  # pyright: ignore[reportPrivateUsage]
    ("GET", "artifacts"): ControlPlane._artifacts,  # pyright: ignore[reportPrivateUsage]
    ("GET", "doors"): ControlPlane._doors,  # pyright: ignore[reportPrivateUsage]
    ("GET", "reference"): ControlPlane._reference,  # pyright: ignore[reportPrivateUsage]
    ("GET", "audit"): ControlPlane._audit_facts,  # pyright: ignore[reportPrivateUsage]
    ("GET", "state"): ControlPlane._state,  # pyright: ignore[reportPrivateUsage]
}
