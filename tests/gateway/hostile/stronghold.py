"""What hostile clients attack: a gateway with episodes that nobody but their holders should reach, and its secrets."""

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketStream

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolRequest,
    VerifierError,
    tool,
)
from rollouthub.hosting import InProcessHost
from rollouthub.messages import assistant
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import GatewayHarness, harness

CANARY = "canary-7d1f93c2b8"
SECONDS = 10.0


class Vault(Environment[EnvironmentConfig]):
    """A counter whose every secret holds the canary."""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        reference = (assistant(CANARY, ToolRequest(id="1", name="add", arguments="{}")),)
        yield Task(Public(id="one", prompt="count"), Secret(reference=reference))

    async def setup(self) -> None:
        self.count = 0

    @tool
    async def add(self) -> str:
        """Add one."""
        self.count += 1
        return str(self.count)

    @tool
    async def fail(self) -> str:
        """Fails inside."""
        raise RuntimeError(CANARY)

    async def verify(self, submission: Submission) -> Score:
        if submission.answer == "break the verifier":
            raise VerifierError(CANARY)
        return Score(reward=float(self.count), feedback=CANARY, passed=False)


@dataclass
class Answer:
    """What came back on the wire, byte by byte."""

    raw: bytes

    @property
    def status(self) -> int:
        """The first response's status; 0 where the connection was closed without one."""
        return int(self.raw.split(b" ", 2)[1]) if self.raw.startswith(b"HTTP/1.") else 0

    @property
    def body(self) -> bytes:
        """What follows the first response's headers."""
        return self.raw.partition(b"\r\n\r\n")[2]


@dataclass
class Stronghold:
    """The gateway, two open episodes and one that is over."""

    harness: GatewayHarness
    mine: SeatAddress
    others: SeatAddress
    over: SeatAddress
    episodes: list[str] = field(default_factory=list[str])

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.harness.gateway.base_url.rpartition(":")[2])

    async def send(self, request: bytes, *, ends: bool = False) -> Answer:
        """Send raw bytes; all that came back within a moment, or to the end of the connection."""
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            with anyio.move_on_after(SECONDS):
                try:
                    await stream.send(request)
                    if ends:
                        await stream.send_eof()
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    pass
                return Answer(await _response(stream))
        return Answer(b"")

    def post(self, path: str, body: bytes, **headers: str) -> bytes:
        """A well-formed POST of any body."""
        given = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json", "Accept": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        given.setdefault("Content-Length", str(len(body)))
        head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in given.items())
        return head.encode("latin-1") + b"Connection: close\r\n\r\n" + body

    def rpc(self, method: str, *, token: str | None = None, **params: Any) -> bytes:
        """A JSON-RPC request of the sessionless era."""
        meta: dict[str, Any] = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
        params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        named = {"Mcp_Name": str(params["name"])} if "name" in params else {}
        path = f"/e/{self.mine.api_key if token is None else token}/mcp"
        return self.post(path, body, MCP_Protocol_Version="2026-07-28", Mcp_Method=method, **named)

    def assert_kept(self, answer: Answer, *, allows: Iterable[int] = ()) -> None:
        """Nothing secret came back, no other's token, nothing of the inside; and it was no failure of the server."""
        raw = answer.raw
        for secret in (CANARY, self.others.api_key, self.over.api_key, "Traceback", "site-packages", *self.episodes):
            assert secret.encode() not in raw, (secret, raw[:500])
        if allowed := tuple(allows):
            assert answer.status in allowed, raw[:500]
        assert answer.status < 500, raw[:500]

    async def assert_untouched(self) -> None:
        """The server answers, and the other episode is as it was."""
        async with self.harness.http.get(f"{self.harness.gateway.base_url}/health") as response:
            assert response.status == 200


async def _response(stream: SocketStream) -> bytes:
    raw = b""
    with anyio.move_on_after(SECONDS):
        try:
            while True:
                raw += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    return raw


@asynccontextmanager
async def besieged() -> AsyncGenerator[Stronghold]:
    """A gateway with two episodes open for as long as the context lasts, and one over."""
    host = InProcessHost("vault", Vault)
    seats: list[SeatAddress] = []
    opened = [anyio.Event() for _ in range(3)]
    done = anyio.Event()

    async with harness(["ok"], host=host) as made, anyio.create_task_group() as episodes:

        async def hold(address: SeatAddress) -> None:
            seats.append(address)
            opened[len(seats) - 1].set()
            if len(seats) > 1:
                await done.wait()

        async def play() -> None:
            await made.play(hold, seconds=600)

        for event in opened:
            episodes.start_soon(play)
            await event.wait()
        while made.gateway.exposed_seats > 2:
            await anyio.lowlevel.checkpoint()
        yield Stronghold(made, mine=seats[1], others=seats[2], over=seats[0])
        done.set()
