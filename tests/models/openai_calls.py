"""Calls of the openai lane, as its tests make them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from rollouthub.generation import Model, ModelReply
from rollouthub.messages import Delta, ReplyStream
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_lane
from tests.models.openai_server import MODEL
from tests.models.servers import ask, serving

KEYS = Credentials({"OPENAI_API_KEY": "hush-hush-hush"})


@asynccontextmanager
async def lane_to(url: str, **config: Any) -> AsyncGenerator[Model]:
    """The lane to a server."""
    async with open_lane(ModelConfig(name=f"openai/{MODEL}", lane="openai", **config), url, KEYS) as model:
        yield model


async def streamed(model: Model, **more: Any) -> tuple[ModelReply, list[Delta]]:
    """A reply that is streamed, and its pieces."""

    async def write(delta: Delta) -> None:
        pass

    stream = ReplyStream(write)
    return await model.generate(ask(stream=stream, **more)), stream.said


@asynccontextmanager
async def responding(handler: Any) -> AsyncGenerator[str]:
    """A server whose Responses API answers this."""
    app = web.Application()
    app.router.add_post("/v1/responses", handler)
    async with serving(app) as url:
        yield url
