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
from anyio.abc import ByteStream
from pydantic_core import to_json

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import first_error
from rollouthub.http.asgi import Guard
from rollouthub.http.listener import bind_tcp, listening
from rollouthub.models.credentials import Credentials
from rollouthub.trainers.reward_server.image_scorer import open_image_scorer
from rollouthub.trainers.reward_server.open_reward_server import RewardOrder, RewardReady, serve_rewards
from rollouthub.trainers.reward_server.request_bodies import Arrivals
from rollouthub.trainers.reward_server.reward_routes import RewardHttp
from rollouthub.trainers.scorer import open_scorer

ECHO = str(Path(__file__).parents[2] / "analysis" / "scoring" / "lines.py") + ":Echo"
TOKEN = "a token of the tests"
GATE = """
import threading
began, go = threading.Event(), threading.Event()
def score(images, prompts, metadata):
    began.set()
    if not go.wait(20):
        raise TimeoutError
    return [1.0] * len(images)
"""
PLAIN = "rollouthub.trainers.reward_server.plain_look:plain_look"


class Asking:
    """A client of a server's application, without a socket between."""

    def __init__(self, application: RewardHttp) -> None:
        self.application = application
        self.taken = anyio.Event()
        """Set where answers are taken; as long as it is not, none is."""
        self.taken.set()

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
            await self.taken.wait()

        await self.application(scope, receive, send)
        return answered[0]["status"], json.loads(answered[1]["body"])


@asynccontextmanager
async def rewards(
    *environments: str,
    token: str | None = TOKEN,
    scorer: str | None = None,
    images: Path | None = None,
    seconds: float = 20.0,
    most_requests: int = 8,
    arrivals: Arrivals | None = None,
) -> AsyncGenerator[Asking]:
    """The application of a server on the loopback."""
    async with AsyncExitStack() as stack:
        opened = looked = None
        if environments:
            opened = await stack.enter_async_context(open_scorer(environments, in_process=True, set={"size": 20}))
        if scorer is not None:
            looked = await stack.enter_async_context(open_image_scorer(scorer, images))
        guard = Guard(["127.0.0.1"])
        yield Asking(
            RewardHttp(token, guard, opened, looked, seconds=seconds, most_requests=most_requests, arrivals=arrivals)
        )


@asynccontextmanager
async def reward_server(
    *environments: str, token: str | None = TOKEN, over: anyio.Event | None = None, **order: Any
) -> AsyncGenerator[str]:
    """A server on a free port of the loopback; its address. It leaves when `over` is set, or the block ends."""
    request = RunRequest(environments=environments, in_process=True, set={"size": 20} if environments else {})
    is_up, over = anyio.Event(), over or anyio.Event()
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


@asynccontextmanager
async def listening_rewards(**bounds: Any) -> AsyncGenerator[int]:
    """The application of a server that scores nothing on a free port of the loopback, which is yielded."""
    bound = bind_tcp("127.0.0.1", 0)
    with bound, anyio.fail_after(30):
        async with rewards(**bounds) as asking, listening(asking.application, bound):
            yield bound.getsockname()[1]


class Wire:
    """A connection to a server, byte by byte."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self._came = b""

    async def begin(self, path: str = "/v1/rewards", length: int = 100_000) -> None:
        """Begin a request that is allowed, and wait until its body is being read."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        await self.stream.send(f"{head}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n".encode())
        assert (await self.answer())[0] == 100

    async def answer(self) -> tuple[int, Any]:
        """Status and content of the next answer."""
        while b"\r\n\r\n" not in self._came:
            self._came += await self.stream.receive()
        head, _, self._came = self._came.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers.get("content-length", "0"))
        while len(self._came) < length:
            self._came += await self.stream.receive()
        content, self._came = self._came[:length], self._came[length:]
        is_json = headers.get("content-type") == "application/json"
        return int(status.split()[1]), json.loads(content) if is_json else content.decode()


@asynccontextmanager
async def wires(port: int, count: int) -> AsyncGenerator[list[Wire]]:
    """So many connections."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port)) for _ in range(count)]
        yield [Wire(stream) for stream in opened]


def gate(folder: Path) -> str:
    """A scorer that sets `began` of its module `rollouthub_scorer_gate`, and waits for its `go`."""
    (folder / "gate.py").write_text(GATE)
    return f"{folder / 'gate.py'}:score"


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
