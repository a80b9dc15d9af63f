"""A reward server within a test, and pictures for it."""

import json
import zlib
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO
from pathlib import Path
from struct import pack
from typing import Any

import anyio
from pydantic_core import to_json

from envhub.engine.request import RunRequest
from envhub.errors import first_error
from envhub.models.credentials import Credentials
from envhub.rewarding.http import RewardHttp
from envhub.rewarding.image_scorer import open_image_scorer
from envhub.rewarding.server import RewardOrder, RewardReady, serve_rewards
from envhub.serving.http import Guard
from envhub.training.scorer import open_scorer

ECHO = str(Path(__file__).parents[1] / "scoring" / "lines.py") + ":Echo"
TOKEN = "a token of the tests"
PLAIN = "envhub.rewarding.plain_look:plain_look"


class Asking:
    """A client of a server's application, without a socket between."""

    def __init__(self, application: RewardHttp) -> None:
        self._application = application

    async def post(self, path: str, body: Any, token: str | None = TOKEN, **headers: str) -> tuple[int, Any]:
        """Status and answer; bytes are sent as they are."""
        content = body if isinstance(body, bytes) else to_json(body)
        sent = {"host": "127.0.0.1:8712", "content-length": str(len(content))}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        scope: Any = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in {**sent, **headers}.items()],
        }
        answered: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content}

        async def send(message: Any) -> None:
            answered.append(message)

        await self._application(scope, receive, send)
        return answered[0]["status"], json.loads(answered[1]["body"])


@asynccontextmanager
async def rewards(
    *environments: str,
    token: str | None = TOKEN,
    scorer: str | None = None,
    images: Path | None = None,
    seconds: float = 20.0,
) -> AsyncGenerator[Asking]:
    """The application of a server on the loopback."""
    async with AsyncExitStack() as stack:
        opened = looked = None
        if environments:
            opened = await stack.enter_async_context(open_scorer(environments, in_process=True, set={"size": 20}))
        if scorer is not None:
            looked = await stack.enter_async_context(open_image_scorer(scorer, images))
        yield Asking(RewardHttp(token, Guard(["127.0.0.1"]), opened, looked, seconds=seconds, most_requests=8))


@asynccontextmanager
async def reward_server(*environments: str, token: str | None = TOKEN, **order: Any) -> AsyncGenerator[str]:
    """A server on a free port of the loopback; its address."""
    request = RunRequest(environments=environments, in_process=True, set={"size": 20} if environments else {})
    is_up, over = anyio.Event(), anyio.Event()
    said: list[RewardReady] = []

    def ready(place: RewardReady) -> None:
        said.append(place)
        is_up.set()

    made = RewardOrder(request=request, credentials=Credentials({}), token=token, **order)
    try:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_rewards, made, ready, over.wait, over.set)
                await is_up.wait()
                yield said[0].url
                over.set()
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def task(number: int | str, environment: str = "lines") -> dict[str, str]:
    """A reference to a task of the echo environment."""
    return {"environment": environment, "split": "test", "task_id": f"test/{number}"}


def png(colour: tuple[int, int, int] = (200, 30, 30), size: tuple[int, int] = (8, 8)) -> bytes:
    """A picture of one colour."""
    from PIL import Image

    buffer = BytesIO()
    Image.new("RGB", size, colour).save(buffer, format="PNG")
    return buffer.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few kilobytes that says it is this large."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return pack(">I", len(content)) + kind + content + pack(">I", zlib.crc32(kind + content))

    header = pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 2**20)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def encoded(content: bytes) -> dict[str, str]:
    """A picture as a request carries it."""
    return {"base64": b64encode(content).decode()}
