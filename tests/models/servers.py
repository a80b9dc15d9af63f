"""Real HTTP servers on the loopback for the tests of the direct lane: well-behaved, scripted, and rude ones."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.abc
from aiohttp import web

from rollouthub import Message, ModelRequest
from rollouthub.messages import user
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct.lane import DirectModel, Endpoint, open_direct
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer
from rollouthub.models.retry import Backoff
from tests import local_server

AT_ONCE = Backoff(base_seconds=0.0)
"""Retries without waiting."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(app: web.Application) -> AsyncGenerator[str]:
    """Serve an application; its base URL."""
    async with local_server.serving(app) as url:
        yield f"{url}/v1"


@asynccontextmanager
async def mock_server(name: str = "mock/solver", api_key: str | None = None) -> AsyncGenerator[str]:
    """Serve a mock model as `served`; its base URL."""
    server = ModelServer(MockModel(ModelConfig(name=name)), ["served"], api_key)
    async with serving(server.application()) as url:
        yield url


class Script:
    """A chat endpoint that gives its answers in order, the last one for ever, and keeps what it was asked."""

    def __init__(self, *answers: Handler) -> None:
        self._answers = answers
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        self.asked.append(await request.json())
        return await self._answers[min(len(self.asked), len(self._answers)) - 1](request)

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[str]:
        """Serve it; its base URL."""
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self._chat)
        async with serving(app) as url:
            yield url


def say(text: str = "hi", **more: Any) -> Handler:
    """A plain good answer; `more` are further fields of the body."""
    message = {"role": "assistant", "content": text}
    return body({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **more})


def body(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Handler:
    """An answer of this JSON."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(value, status=status, headers=headers)

    return handle


def text(value: str, status: int = 200, content_type: str = "text/html") -> Handler:
    """An answer of these words."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(text=value, status=status, content_type=content_type)

    return handle


DONE = "[DONE]"


def chunk(delta: dict[str, Any] | None = None, finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of a streamed answer; `more` are further fields of its choice."""
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish_reason, **more}]}


def streaming(*events: Any, hold: Callable[[int], Awaitable[None]] | None = None) -> Handler:
    """A streamed answer of these events; words are sent as they are, bytes raw. `hold` is waited for before each."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for place, event in enumerate(events):
            if hold is not None:
                await hold(place)
            if not isinstance(event, bytes):
                said = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
                event = f"data: {said}\n\n".encode()
            await response.write(event)
        await response.write_eof()
        return response

    return handle


async def hangs_up(request: web.Request) -> web.StreamResponse:
    """The first words of a streamed answer, then a connection that breaks."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(f"data: {json.dumps(chunk({'content': 'half an'}))}\n\n".encode())
    assert request.transport is not None
    request.transport.close()
    return response


@asynccontextmanager
async def raw_server(*answers: bytes) -> AsyncGenerator[str]:
    """A server that sends these bytes for one connection each, in order and the last one for ever, then hangs up."""
    count = 0

    async def handle(stream: anyio.abc.SocketStream) -> None:
        nonlocal count
        answer = answers[min(count, len(answers) - 1)]
        count += 1
        # A client that is done may leave at any time.
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            async with stream:
                await stream.receive()
                if answer:
                    await stream.send(answer)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        port: int = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}/v1"
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def direct(
    base_url: str,
    *,
    api_key: str | None = None,
    is_vllm: bool = True,
    backoff: Backoff = AT_ONCE,
    redact: Callable[[str], str] = str,
    **config: Any,
) -> AsyncGenerator[DirectModel]:
    """A model of the direct lane at a base URL."""
    name = "hosted_vllm/served" if is_vllm else "openai/served"
    key_name = "HOSTED_VLLM_API_KEY" if is_vllm else "OPENAI_API_KEY"
    endpoint = Endpoint("served", base_url, key_name, api_key, "vllm" if is_vllm else "openai")
    async with open_direct(ModelConfig(name=name, **config), endpoint, backoff=backoff, redact=redact) as model:
        yield model


def ask(*messages: Message, timeout_seconds: float = 30.0, **more: Any) -> ModelRequest:
    """A request; of one short user message unless others are given."""
    conversation: Sequence[Message] = messages or [user("What is 2 + 3?")]
    return ModelRequest(conversation, timeout_seconds=timeout_seconds, **more)
