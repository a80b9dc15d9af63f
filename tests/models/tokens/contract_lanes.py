"""What the contract of the lanes runs over: each lane with a server of its kind, and the faults of servers."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from aiohttp import web

from rollouthub.generation import Model
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.direct.lane import open_direct
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer
from rollouthub.models.resolve import find_endpoint
from rollouthub.models.tokens.tokens_lane import open_tokens
from tests.local_server import serving
from tests.models.servers import AT_ONCE
from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.models.tokens.sglang_chat_shape import refusal
from tests.models.tokens.sglang_shape import SglangShape
from tests.models.tokens.vllm_routes import VllmRoutes, sampled

TEXT = "The answer is 17."
SAMPLED = [*odd_ids(TEXT, 3), ChatMl().end]
"""Ids that no tokenizer would give that text."""
KEY = "k" * 8

Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Trouble:
    """What a server's sampling route does in place of answering, request by request; then it answers."""

    faults: list[Fault] = field(default_factory=list[Fault])
    running: int = 0
    tries: int = 0
    changed: anyio.Event = field(default_factory=anyio.Event)
    routes = ("/generate", "/v1/chat/completions", "/inference/v1/generate")

    @web.middleware
    async def middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Meet the faults in their order."""
        if request.path not in self.routes:
            return await handler(request)
        self.tries += 1
        self._count(1)
        try:
            return await (self.faults.pop(0) if self.faults else handler)(request)
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self.running += change
        self.changed.set()
        self.changed = anyio.Event()

    async def until(self, running: int) -> None:
        """Wait until so many requests are at the route."""
        while self.running != running:
            await self.changed.wait()


@dataclass
class Subject:
    """A lane and a server of its kind."""

    id: str
    name: str
    lane: Lane
    app: Callable[[int | None], web.Application]
    """The server's routes; its weights have this version, if any."""
    samples: list[int] | None
    """The ids that the server samples; None if it is the mock, whose ids are bytes."""

    @asynccontextmanager
    async def open(self, trouble: Trouble, version: int | None = None, **config: Any) -> AsyncGenerator[Model]:
        """The lane to its server, which tries again at once."""
        app = self.app(version)
        app.middlewares.append(trouble.middleware)
        async with serving(app, notices_hang_ups=True) as url:
            asked = ModelConfig(name=self.name, base_url=url, lane=self.lane, **config)
            credentials = Credentials({"HOSTED_VLLM_API_KEY": KEY, "SGLANG_API_KEY": KEY})
            endpoint = find_endpoint(asked, credentials)
            assert isinstance(endpoint, Endpoint)
            opened = open_tokens if self.lane == "tokens" else open_direct
            async with opened(asked, endpoint, backoff=AT_ONCE) as model:
                yield model


def _vllm(version: int | None) -> web.Application:
    spans = None if version is None else [{"version": str(version), "start": 0, "end": len(SAMPLED)}]
    return VllmRoutes(*(sampled(SAMPLED, weight_versions=spans) for _ in range(9))).app()


def _sglang(version: int | None) -> web.Application:
    return SglangShape(answers=[SAMPLED], api_key=KEY, version="default" if version is None else str(version)).app()


def _mock(version: int | None) -> web.Application:
    server = ModelServer(MockModel(ModelConfig(name=f"mock/say?text={TEXT}")), ["served"], KEY)
    if version is not None:
        assert server.control is not None
        server.control.weight_version = str(version)
    return server.application()


SUBJECTS = [
    Subject("vllm-tokens", "hosted_vllm/served", "tokens", _vllm, SAMPLED),
    Subject("sglang-tokens", "sglang/served", "tokens", _sglang, SAMPLED),
    Subject("sglang-direct", "sglang/served", "direct", _sglang, SAMPLED),
    Subject("mock-direct", "hosted_vllm/served", "direct", _mock, None),
]


def said(body: dict[str, Any], status: int, **headers: str) -> Fault:
    """A server that answers with this body."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return handle


async def too_long(request: web.Request) -> web.StreamResponse:
    """A refusal of a prompt that does not fit, in the words of the server's kind."""
    if request.path == "/inference/v1/generate":
        message = "This model's maximum context length is 8 tokens. However, your prompt contains 9 input tokens."
        return web.json_response({"error": {"message": message, "code": 400}}, status=400)
    return refusal("The input (9 tokens) is longer than the model's context length (8 tokens).")


async def cut(request: web.Request) -> web.StreamResponse:
    """An answer whose connection ends in the middle."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "5000"})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    assert request.transport is not None
    request.transport.close()
    return response


async def garbage(request: web.Request) -> web.StreamResponse:
    """Something that is no answer."""
    return web.Response(text='{"choices": [[[', content_type="application/json")


async def hangs(request: web.Request) -> web.StreamResponse:
    """No answer at all."""
    await anyio.sleep_forever()
    raise AssertionError
