"""A tiny server that speaks one dialect with scripted answers: what the official clients are tested against."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from rollouthub.gateway.model_api.dialect import AnswerRequest, CallProblem, Dialect
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta, Message
from rollouthub.rollout import Usage
from tests import local_server

USAGE = Usage(prompt_tokens=11, output_tokens=7, cached_tokens=3, reasoning_tokens=2)


@dataclass(frozen=True)
class Scripted:
    """One scripted answer: the pieces it is streamed in, and the whole."""

    reply: ModelReply
    deltas: Sequence[Delta] = ()
    breaks: CallProblem | None = None
    """What a stream ends with instead of its end."""


@dataclass
class Api:
    """The server: where it is, and what it was asked."""

    base_url: str
    asked: list[AnswerRequest] = field(default_factory=list[AnswerRequest])
    bodies: list[bytes] = field(default_factory=list[bytes])

    @property
    def last(self) -> AnswerRequest:
        return self.asked[-1]


def says(
    message: Message, *deltas: Delta, finish_reason: str | None = "stop", breaks: CallProblem | None = None
) -> Scripted:
    return Scripted(ModelReply(message=message, finish_reason=finish_reason, usage=USAGE), deltas, breaks)


@asynccontextmanager
async def serving(dialect: Dialect, *script: Scripted | CallProblem) -> AsyncGenerator[Api]:
    """Serve the script's answers, one a call, at any path."""
    left = list(script)

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        api.bodies.append(body)
        try:
            asked = dialect.read(body)
        except ValueError as error:
            return _json(dialect.problem(CallProblem("invalid", 400, str(error))), 400)
        api.asked.append(asked)
        answer = left.pop(0)
        number = f"{len(api.asked):08x}"
        if isinstance(answer, CallProblem):
            return _json(dialect.problem(answer), answer.status)
        if not asked.is_stream:
            return _json(dialect.whole(asked, answer.reply, number), 200)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        events = dialect.events(asked, number)
        await response.write(events.begin())
        for delta in answer.deltas:
            if piece := events.delta(delta):
                await response.write(piece)
        await response.write(events.end(answer.reply) if answer.breaks is None else events.fail(answer.breaks))
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    async with local_server.serving(app) as url:
        api = Api(url)
        yield api


def _json(body: bytes, status: int) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
