"""Answers that an endpoint packs, once or twice: unpacked in small pieces up to the bounds of unpacked ones."""

import json
import tracemalloc
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anyio
import pytest
from aiohttp import web

from rollouthub import ModelError
from rollouthub.models.config import Api, Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_lane
from tests.models.openai_calls import streamed
from tests.models.openai_server import completion, message_item, response
from tests.models.servers import ask, serving

KEYS = Credentials({"OPENAI_API_KEY": "hush-hush-hush", "HOSTED_VLLM_API_KEY": "hush-hush-hush"})
LANES: dict[str, tuple[Lane, Api | None, bool]] = {
    "direct": ("direct", None, False),
    "direct, streamed": ("direct", None, True),
    "litellm": ("litellm", None, False),
    "chat": ("openai", "chat", False),
    "chat, streamed": ("openai", "chat", True),
    "responses": ("openai", "responses", False),
    "responses, streamed": ("openai", "responses", True),
    "tokens": ("tokens", None, False),
}
every_lane = pytest.mark.parametrize("lane", list(LANES))
MANY_MEBIBYTES = 512
MOST_HELD = 200 * 2**20
"""An answer of 64 MiB in pieces, and joined."""


def packed(text: bytes, mebibytes: int = 0) -> bytes:
    """A text in gzip's format, and so many mebibytes of spaces after it."""
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(text), *(packer.compress(b" " * 2**20) for _ in range(mebibytes)), packer.flush()]
    return b"".join(parts)


@cache
def bomb() -> bytes:
    """A beginning of an answer that is half a gibibyte, in gzip's format; no process makes it that does not need it."""
    return packed(b'{"choices": "', MANY_MEBIBYTES)


@asynccontextmanager
async def answering(
    body: bytes, encoding: str, status: int = 200, kind: str = "application/json"
) -> AsyncGenerator[str]:
    """A server that answers everything with these bytes."""

    async def answer(request: web.Request) -> web.StreamResponse:
        headers = {"Content-Encoding": encoding, "Content-Type": kind}
        return web.Response(body=body, status=status, headers=headers)

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", answer)
    async with serving(app) as url:
        yield url


async def asked(lane: str, url: str) -> str:
    """What a lane makes of a server: the text of its answer."""
    name, api, is_streamed = LANES[lane]
    config = ModelConfig(name=f"{'hosted_vllm' if name == 'tokens' else 'openai'}/m", lane=name, api=api, max_tries=1)
    async with open_lane(config, url, KEYS) as model:
        with anyio.fail_after(60):
            reply = (await streamed(model))[0] if is_streamed else await model.generate(ask())
    return reply.message.text


@every_lane
@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip"])
async def test_what_unpacks_without_end_is_not_unpacked_to_its_end(lane: str, status: int, encoding: str) -> None:
    kind = "text/event-stream" if LANES[lane][2] else "application/json"
    body = bomb() if encoding == "gzip" else packed(bomb())
    async with answering(body, encoding, status, kind) as url:
        with pytest.raises(ModelError):  # what the package of a lane imports is not the answer's
            await asked(lane, url)
        tracemalloc.start()
        try:
            with pytest.raises(ModelError):
                await asked(lane, url)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert held < MOST_HELD


@pytest.mark.parametrize("lane", [lane for lane in LANES if lane != "tokens" and "streamed" not in lane])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
async def test_an_answer_that_is_packed_is_read(lane: str, encoding: str) -> None:
    said: Any = response([message_item("hi")]) if lane == "responses" else completion("hi")
    plain = json.dumps(said).encode()
    body = {"gzip": packed(plain), "deflate": zlib.compress(plain), "identity": plain}[encoding]
    async with answering(body, encoding) as url:
        assert await asked(lane, url) == "hi"


@pytest.mark.parametrize("lane", ["direct", "litellm", "chat", "responses"])
async def test_the_beginning_of_an_endless_refusal_is_told(lane: str) -> None:
    async with answering(packed(b"no such thing ", 64), "gzip", 400) as url:
        with pytest.raises(ModelError, match="no such thing"):
            await asked(lane, url)
