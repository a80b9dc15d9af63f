"""The HTTP side of the model API: an agent's request in any dialect becomes a turn of its seat, and the reply its
answer.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from rollouthub.engine.abandoned_calls import AbandonableCall
from rollouthub.errors import AgentError, BudgetError, EpisodeError, EpisodeStop, ModelError
from rollouthub.gateway.exposed_seat import ExposedSeat
from rollouthub.gateway.model_api.dialect import AnswerRequest, CallProblem, CallRefused, Dialect, model_list
from rollouthub.gateway.model_api.dialects import COUNT_TOKENS, counted_tokens, dialect_of, make_ready
from rollouthub.gateway.model_api.retry_cache import PendingAnswer
from rollouthub.generation import ModelReply, Sampling
from rollouthub.http.asgi import Receive, Scope, Send, TooLarge, answer, header, read_body, send_body
from rollouthub.messages import Delta, ReplyStream, cut_delta

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 32 * 2**20
MOST_BYTES_READ_AT_ONCE = 256 * 2**10
"""Larger requests, in bytes, are parsed, and larger answers written, in a worker thread, so as not to block the
event loop.
"""
MOST_CHARACTERS_AT_ONCE = 64 * 2**10
"""Longer pieces of an answer, in characters, are split, and other tasks of the event loop run in between."""
# More threads would take turns with the loop, and away those that others need.
_THREADS = anyio.CapacityLimiter(2)
MOST_CALLS = 64
"""Most concurrent model calls of one seat; further ones are refused."""
MOST_MEDIA_BYTES = 256 * 2**20
"""Most bytes of media in one episode, which stay in memory until its end; calls that add more are refused."""
_EVENT_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
_RETRY_HEADER = b"x-stainless-retry-count"
"""Request header in which the official clients of OpenAI and Anthropic count their retries."""
_KEY_HEADER = b"idempotency-key"

UNAUTHORIZED = CallProblem("unauthorized", 401, "no episode has this key; it may be over")
CLOSED = CallProblem("closed", 403, "the episode is closed", "episode_closed")
_FAILED = "the hub could not get an answer from the model"
_Read = TypeVar("_Read")
_NOTHING = Sampling()
"""Sampling settings of a request that sets none, as of most agents."""
_LIMITS = {
    "turn_limit": "the episode's limit of model responses is reached",
    "token_limit": "the episode's limit of output tokens is reached",
    "cost_limit": "the episode's limit of cost is reached",
    "time_limit": "the episode's time is over",
}


async def refuse(path: str, send: Send, problem: CallProblem) -> None:
    """Answer a request with a problem, in the format of its path's dialect."""
    dialect = dialect_of(path) or dialect_of("chat/completions")
    assert dialect is not None
    headers: list[tuple[bytes, bytes]] = []
    if problem.retry_after_seconds is not None:
        headers.append((b"retry-after", b"%d" % max(1, round(problem.retry_after_seconds))))
    await answer(send, problem.status, dialect.problem(problem), headers=headers)


async def serve_model_api(exposed: ExposedSeat, path: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one request to a seat's model API; `path` is the part after `…/v1/`."""
    try:
        await _serve(exposed, path, scope, receive, send)
    except CallRefused as refused:
        await refuse(path, send, refused.problem)


async def _serve(exposed: ExposedSeat, path: str, scope: Scope, receive: Receive, send: Send) -> None:
    model = exposed.seat.model_name
    if path == "models" and scope["method"] == "GET":
        await answer(send, 200, model_list([] if model is None else [model]))
        return
    dialect, is_count = dialect_of(path), path == COUNT_TOKENS
    if dialect is None and not is_count:
        raise CallRefused(
            CallProblem("invalid", 404, f"the hub serves no {scope['method']} of {path[:80]!r}", "not_found")
        )
    if scope["method"] != "POST":
        raise CallRefused(CallProblem("invalid", 405, f"{path!r} takes POST alone"))
    if model is None:
        raise CallRefused(
            CallProblem("invalid", 404, "this run has no model; the agent brings its own", "model_not_found")
        )
    if exposed.model_calls >= MOST_CALLS:
        raise CallRefused(
            CallProblem("busy", 429, f"at most {MOST_CALLS} calls of a seat at once", retry_after_seconds=1)
        )
    exposed.model_calls += 1
    try:
        try:
            body = await read_body(scope, receive, MAX_BODY_BYTES)
        except TooLarge:
            raise CallRefused(
                CallProblem("too_large", 413, f"the request is larger than {MAX_BODY_BYTES >> 20} MiB")
            ) from None
        await make_ready(path)
        if is_count:
            await answer(send, 200, await _read(counted_tokens, body))
            return
        assert dialect is not None
        asked = await _read(partial(dialect.read, scope=exposed.token.encode()), body)
        call = _ApiCall(exposed, dialect, asked, path, body, scope, send)
        del asked, body  # they may hold many pictures, and the model may take minutes
        await call.answer()
    finally:
        exposed.model_calls -= 1


async def _read(read: Callable[[bytes], _Read], body: bytes) -> _Read:
    """Parse a body; only errors raised here are quoted to the agent."""
    try:
        if len(body) <= MOST_BYTES_READ_AT_ONCE:
            return read(body)
        return await anyio.to_thread.run_sync(read, body, limiter=_THREADS)
    except ValueError as error:
        raise CallRefused(CallProblem("invalid", 400, str(error)[:2000])) from None


async def _written(write: Callable[[ModelReply], bytes], reply: ModelReply) -> bytes:
    """An answer's bytes."""
    message = reply.message
    size = len(message.text) + len(message.reasoning or "") + sum(len(call.arguments) for call in message.tool_requests)
    if size <= MOST_BYTES_READ_AT_ONCE:
        return write(reply)
    return await anyio.to_thread.run_sync(write, reply, limiter=_THREADS)


class _ApiCall:
    """One model call of an agent."""

    def __init__(
        self,
        exposed: ExposedSeat,
        dialect: Dialect,
        asked: AnswerRequest,
        path: str,
        body: bytes,
        scope: Scope,
        send: Send,
    ) -> None:
        self._exposed, self._dialect, self._scope, self._send = exposed, dialect, scope, send
        self._asked = asked
        named = header(scope, _KEY_HEADER)
        retries = header(scope, _RETRY_HEADER)
        self._is_retry = named is not None or (retries is not None and retries.strip() not in (b"", b"0"))
        key = hashlib.blake2b(path.encode() + b"\0" + (named or b"") + b"\0", digest_size=16)
        key.update(body)
        self._key = key.digest()
        self._out: _Stream | None = None
        self._is_answering = False
        """Whether the end of the answer is being sent."""

    async def answer(self) -> None:
        """Answer the call, with the answer of an earlier try if there is one."""
        retry_cache = self._exposed.retry_cache
        reply = await retry_cache.earlier(self._key, is_retry=self._is_retry)
        if reply is not None:
            await self._deliver(reply, None)
            return
        # Whoever hangs up wants no answer any more, and it may cost money.
        with retry_cache.on_the_way(self._key) as pending, self._exposed.while_open(self._scope) as patience:
            patience.left = partial(setattr, pending, "reply")
            await self._generate(pending, patience)
            return
        if self._exposed.is_over and not self._is_answering:
            if self._out is None or not self._out.has_begun:
                raise CallRefused(CLOSED)
            await self._out.fail(CLOSED)
            return
        if pending.reply is not None:
            retry_cache.keep(self._key, pending.reply, is_delivered=False)
        logger.debug("an agent left before its model had answered")

    async def _generate(self, pending: PendingAnswer, patience: AbandonableCall) -> None:
        exposed = self._exposed
        if exposed.is_over:
            raise CallRefused(CLOSED)
        _take_media(exposed.seat.recorder.media, self._asked.media)
        asked = self._asked = replace(self._asked, media={})  # the recorder has them, once
        out = self._out = _Stream(self._dialect, asked, self._number(), self._send) if asked.is_stream else None
        try:
            reply = pending.reply = await exposed.seat.ask(
                exposed.seat.recorder.with_items(exposed.seat.name, asked.messages),
                asked.tools,
                asked_for=_asked_for(asked),
                stream=None if out is None else out.stream,
                patience=patience,
            )
        except (EpisodeStop, EpisodeError) as error:
            problem = _problem(error)
            if out is None or not out.has_begun:
                raise CallRefused(problem) from None
            await out.fail(problem)
            return
        exposed.retry_cache.keep(self._key, reply, is_delivered=False)
        await self._deliver(reply, out)
        exposed.seat.look()

    async def _deliver(self, reply: ModelReply, out: "_Stream | None") -> None:
        asked = self._asked
        self._is_answering = True
        if asked.is_stream:
            out = out or _Stream(self._dialect, asked, self._number(), self._send)
            await out.end(reply)
        else:
            whole = partial(self._dialect.whole, asked, number=self._number())
            await answer(self._send, 200, await _written(whole, reply))
        self._exposed.retry_cache.keep(self._key, reply, is_delivered=True)

    def _number(self) -> str:
        return f"{self._key.hex()[:16]}{len(self._exposed.seat.recorder.turns):06x}"


class _Stream:
    """An answer as server-sent events. Nothing is sent before the first piece, so that a refusal can still set the
    HTTP status.
    """

    def __init__(self, dialect: Dialect, asked: AnswerRequest, number: str, send: Send) -> None:
        self._events, self._send = dialect.events(asked, number), send
        self.has_begun = False
        self.stream = ReplyStream(self._write)

    async def _begin(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _EVENT_STREAM})
            await self._say(self._events.begin())

    async def _write(self, delta: Delta) -> None:
        await self._begin()
        for place, piece in enumerate(cut_delta(delta, MOST_CHARACTERS_AT_ONCE)):
            if place:
                await anyio.lowlevel.checkpoint()
            await self._say(self._events.delta(piece))

    async def end(self, reply: ModelReply) -> None:
        """Send the rest of the answer."""
        await self._begin()
        await self._say(await _written(self._events.end, reply), is_last=True)

    async def fail(self, problem: CallProblem) -> None:
        """End the stream with an error."""
        await self._say(self._events.fail(problem), is_last=True)

    async def _say(self, piece: bytes, *, is_last: bool = False) -> None:
        if piece or is_last:
            await send_body(self._send, piece, is_last=is_last)


def _take_media(known: dict[str, bytes], media: Mapping[str, bytes]) -> None:
    """Store the media of a call, within the limit. The limit on turns does not bound them: refused calls send media,
    too.
    """
    new = {digest: raw for digest, raw in media.items() if digest not in known}
    if new and sum(map(len, known.values())) + sum(map(len, new.values())) > MOST_MEDIA_BYTES:
        most = f"at most {MOST_MEDIA_BYTES >> 20} MiB of media in one episode"
        raise CallRefused(CallProblem("too_large", 413, most))
    known.update(new)


def _asked_for(asked: AnswerRequest) -> Sampling:
    constraints: Mapping[str, Any] = asked.constraints
    if asked.max_tokens is None and not constraints:
        return _NOTHING
    stop = constraints.get("stop")
    return Sampling(
        max_tokens=asked.max_tokens,
        stop=None if not stop else (stop,) if isinstance(stop, str) else tuple(stop),
        extra={name: value for name, value in constraints.items() if name != "stop"},
    )


def _problem(error: EpisodeStop | EpisodeError) -> CallProblem:
    """The problem that the agent is told, without details of a fault, which only the record has."""
    if isinstance(error, EpisodeStop):
        if error.stop == "context_limit":
            return CallProblem(
                "context", 400, "the conversation does not fit the model's context", "context_length_exceeded"
            )
        if error.stop == "submitted":
            return CLOSED
        return CallProblem("limit", 403, _LIMITS.get(error.stop, f"the episode has ended: {error.stop}"), error.stop)
    if isinstance(error, AgentError):
        return CallProblem("invalid", 400, str(error))
    if isinstance(error, BudgetError):
        return CallProblem("limit", 403, "the run's budget is spent", "budget")
    if isinstance(error, ModelError) and error.status in (400, 413, 422):
        return CallProblem("invalid", 400, "the model refused the request")
    # The hub has tried again already, as often as the run allows.
    return CallProblem("failed", 502 if error.retryable else 424, _FAILED, "model_failed")
