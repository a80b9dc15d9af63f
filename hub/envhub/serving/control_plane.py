"""The control plane: HTTP and JSON for the hub alone, behind a credential that no agent holds."""

import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import parse_qsl, unquote

import anyio
from pydantic import BaseModel, ValidationError

from envhub.errors import CredentialError, HubError, NotOffered, TaskError, UnknownNameError, UsageError
from envhub.hosting.control import (
    BatchAnswer,
    BatchEntry,
    BatchRequest,
    Failure,
    OpenEpisode,
    Problem,
    Reference,
    ReplyAnswer,
    ReplyRequest,
    State,
    Verdict,
    Verified,
    VerifyRequest,
    problem_of,
)
from envhub.hosting.faults import describe
from envhub.limits import Deadlines
from envhub.protocols import EnvironmentHost
from envhub.serving.episodes import Conflict, Episodes, Unknown
from envhub.serving.http import Guard, Receive, Scope, Send, TooLarge, answer, header, read_body, until_gone
from envhub.serving.listing import MOST_ON_A_PAGE, PAGE, Listing, card_json
from envhub.serving.metrics import Metrics

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 * 2**20
KEEP_ALIVE_SECONDS = 15.0
BATCH_CONCURRENCY = 32
_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_EVENTS = b"text/event-stream"

BodyT = TypeVar("BodyT", bound=BaseModel)
Query = dict[str, str]


class _NoRoute(Exception):
    """Nothing is at this address."""


class _WrongMethod(Exception):
    """Something is there, for another method."""


class ControlPlane:
    """An ASGI application: every route of the contract's control plane."""

    def __init__(
        self, host: EnvironmentHost, episodes: Episodes, metrics: Metrics, token: str, guard: Guard | None
    ) -> None:
        """`guard` checks Host and Origin; None where a unix socket keeps browsers out."""
        self._host, self._episodes, self._metrics, self._guard = host, episodes, metrics, guard
        self._listing = Listing(host)
        self._credential = b"Bearer " + token.encode()
        info = host.info.model_copy(update={"isolation": "process"})
        self._environment = info.model_dump_json(by_alias=True, exclude_none=True).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        parts = [unquote(part) for part in scope["raw_path"].decode("latin-1").split("/")[1:]]
        try:
            refusal = None if self._guard is None else self._guard.refusal(scope)
            if refusal is not None:
                await _refuse(send, refusal, UsageError("the request names a foreign Host or Origin"))
            elif parts == ["health"]:
                await answer(send, 200, b'{"status":"ok"}')
            elif not hmac.compare_digest(header(scope, b"authorization") or b"", self._credential):
                error = CredentialError("the control plane needs its own credential, as `Authorization: Bearer`")
                await _refuse(send, 401, error)
            elif len(parts) == 4 and parts[1] == "episodes" and parts[3] == "events" and scope["method"] == "GET":
                await self._stream(parts[2], _query(scope, "after"), scope, send)
            elif parts == ["metrics"]:
                _need(scope, "GET")
                await answer(send, 200, self._metrics.text().encode(), _TEXT)
            else:
                await answer(send, 200, await self._answer(parts, scope, receive))
        except _NoRoute:
            await _refuse(send, 404, UsageError(f"there is nothing at {scope['method']} {scope['path'][:200]!r}"))
        except _WrongMethod:
            await _refuse(send, 405, UsageError(f"{scope['path'][:200]!r} does not take {scope['method']}"))
        except TooLarge:
            error = UsageError(f"the body is larger than {MAX_BODY_BYTES >> 20} MiB")
            await _refuse(send, 413, error, [(b"connection", b"close")])
        except HubError as error:
            await _refuse(send, _status(error), error)
        except Exception as error:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            await _refuse(send, 500, TaskError(f"the environment server failed: {describe(error)}"))

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
                    return _json(await self._episodes.close(episode_id))
                _need(scope, "GET")
                closed = self._episodes.closed(episode_id)
                return _json(closed or self._episodes.find(episode_id).status())
            case ["v1", "episodes", episode_id, verb]:
                return await self._act(episode_id, verb, scope, receive)
            case ["v1", "environment"]:
                _need(scope, "GET")
                return self._environment
            case ["v1", "tasks"]:
                _need(scope, "GET")
                return await self._list(scope)
            case ["v1", "tasks", *rest, "reference"] if rest:
                _need(scope, "GET")
                return await self._task_reference("/".join(rest), scope)
            case ["v1", "tasks", *rest]:
                _need(scope, "GET")
                query = _query(scope, "split", "seed")
                split, seed = self._split(query), _integer(query, "seed")
                return card_json(await self._host.find_task(split, "/".join(rest), seed))
            case ["v1", "verify"]:
                return _json(await self._score(await _body(scope, receive, BatchRequest)))
            case _:
                raise _NoRoute

    def _split(self, query: Query) -> str:
        return query.get("split", self._host.info.splits[0])

    async def _list(self, scope: Scope) -> bytes:
        query = _query(scope, "split", "seed", "cursor", "limit")
        seed = _integer(query, "seed") if "seed" in query else None
        limit = _integer(query, "limit", PAGE)
        if not 1 <= limit <= MOST_ON_A_PAGE:
            raise UsageError(f"limit = {limit}: a page has 1 to {MOST_ON_A_PAGE} tasks")
        return await self._listing.page(query.get("split"), seed, query.get("cursor"), limit)

    async def _task_reference(self, task_id: str, scope: Scope) -> bytes:
        query = _query(scope, "split", "seed")
        card = await self._host.find_task(self._split(query), task_id, _integer(query, "seed"))
        async with self._host.open(card, seed=0, deadlines=Deadlines()) as episode:
            messages = await episode.reference()
        if not messages:
            raise _NoReference(f"task {task_id!r} has no reference solution")
        return _json(Reference(messages=tuple(messages)))

    async def _open(self, scope: Scope, receive: Receive) -> bytes:
        request = await _body(scope, receive, OpenEpisode)
        with until_gone(scope):
            return _json(await self._episodes.open(request))
        raise TaskError("whoever asked for the episode has left")

    async def _act(self, episode_id: str, verb: str, scope: Scope, receive: Receive) -> bytes:
        act = _ACTIONS.get((scope["method"], verb))
        if act is None:
            if any(known == verb for _, known in _ACTIONS):
                raise _WrongMethod
            raise _NoRoute
        return _json(await act(self, episode_id, scope, receive))

    async def _seal(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        return (await self._episodes.seal(episode_id)).status()

    async def _verify(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        body = await read_body(scope, receive, MAX_BODY_BYTES)
        request = _parsed(body, VerifyRequest) if body else VerifyRequest()
        served = await self._episodes.seal(episode_id)
        score = await served.verify(request.submission, unless_broken=request.unless_broken)
        return Verified(score=score, status=served.status())

    async def _reply(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        request = await _body(scope, receive, ReplyRequest)
        seats = self._episodes.find(episode_id).episode.seats
        if request.seat not in seats:
            raise UnknownNameError("seat", request.seat, seats)
        with until_gone(scope):
            messages = await seats[request.seat].reply(request.messages)
            return ReplyAnswer(messages=None if messages is None else tuple(messages))
        raise TaskError("whoever asked for the reply has left")

    async def _reference(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        return Reference(messages=tuple(await self._episodes.find(episode_id).episode.reference()))

    async def _state(self, episode_id: str, scope: Scope, receive: Receive) -> BaseModel:
        return State(state=await self._episodes.find(episode_id).episode.snapshot())

    async def _score(self, request: BatchRequest) -> BatchAnswer:
        if not self._host.info.scores_transcripts:
            raise NotOffered(f"environment {self._host.info.name!r} scores episodes, not submissions alone")
        verdicts = [Verdict()] * len(request.entries)
        limiter = anyio.CapacityLimiter(BATCH_CONCURRENCY)

        async def score(position: int, entry: BatchEntry) -> None:
            async with limiter:
                verdicts[position] = await self._verdict(entry, request.deadlines)

        async with anyio.create_task_group() as tasks:
            for position, entry in enumerate(request.entries):
                tasks.start_soon(score, position, entry)
        return BatchAnswer(verdicts=tuple(verdicts))

    async def _verdict(self, entry: BatchEntry, deadlines: Deadlines) -> Verdict:
        key, outcome = entry.task, "scored"
        try:
            card = await self._host.find_task(key.split, key.id, key.seed)
            score = await self._host.score(card, entry.submission, seed=entry.seed, deadlines=deadlines)
            return Verdict(score=score)
        except HubError as error:
            outcome = type(error).__name__
            return Verdict(error=problem_of(error))
        finally:
            self._metrics.verdicts[outcome] += 1

    async def _stream(self, episode_id: str, query: Query, scope: Scope, send: Send) -> None:
        """Send an episode's events as they come."""
        last = header(scope, b"last-event-id")
        if last is not None:
            query = {"after": last.decode("latin-1")}
        after = _integer(query, "after")
        events = self._episodes.find(episode_id).events
        headers = [(b"content-type", _EVENTS), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        with until_gone(scope):
            async for chunk in events.since(after, KEEP_ALIVE_SECONDS):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


_Action = Callable[[ControlPlane, str, Scope, Receive], Awaitable[BaseModel]]
_ACTIONS: dict[tuple[str, str], _Action] = {
    ("POST", "seal"): ControlPlane._seal,  # pyright: ignore[reportPrivateUsage]  # its own module
    ("POST", "verify"): ControlPlane._verify,  # pyright: ignore[reportPrivateUsage]
    ("POST", "reply"): ControlPlane._reply,  # pyright: ignore[reportPrivateUsage]
    ("GET", "reference"): ControlPlane._reference,  # pyright: ignore[reportPrivateUsage]
    ("GET", "state"): ControlPlane._state,  # pyright: ignore[reportPrivateUsage]
}


class _NoReference(NotOffered):
    """A task without a reference solution."""


def _status(error: HubError) -> int:
    match error:
        case Unknown() | UnknownNameError() | _NoReference():
            return 404
        case Conflict():
            return 409
        case NotOffered():
            return 501
        case CredentialError():
            return 401
        case UsageError():
            return 400
        case _:
            return 500


def _json(model: BaseModel) -> bytes:
    return model.model_dump_json(by_alias=True).encode()


async def _refuse(send: Send, status: int, error: HubError, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    failure = Failure(error=_problem(error))
    await answer(send, status, failure.model_dump_json().encode(), headers=headers or [])


def _problem(error: HubError) -> Problem:
    """An error as its caller is told; of an episode that is gone, another attempt may fare better."""
    if isinstance(error, Unknown | Conflict):
        return Problem(type="TaskError", message=str(error), retryable=True)
    return problem_of(error)


def _need(scope: Scope, method: str) -> None:
    if scope["method"] != method:
        raise _WrongMethod


def _query(scope: Scope, *known: str) -> Query:
    """The query's parameters, none of them unknown or twice."""
    found: Query = {}
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise UsageError(f"unknown parameter {name!r}; there are: {', '.join(known)}")
        if name in found:
            raise UsageError(f"parameter {name!r} is given twice")
        found[name] = value
    return found


def _integer(query: Query, name: str, default: int = 0) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20):
        raise UsageError(f"{name} = {text[:100]!r} is no integer")
    return int(text)


async def _body(scope: Scope, receive: Receive, kind: type[BodyT]) -> BodyT:
    _need(scope, "POST")
    return _parsed(await read_body(scope, receive, MAX_BODY_BYTES), kind)


def _parsed(body: bytes, kind: type[BodyT]) -> BodyT:
    """A body, checked.

    Raises:
        UsageError: says what is wrong with it, and where.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        lines = [f"{'.'.join(map(str, problem['loc'])) or 'body'}: {problem['msg']}" for problem in problems[:5]]
        raise UsageError(f"the body is no {kind.__name__}: {'; '.join(lines)}") from None
