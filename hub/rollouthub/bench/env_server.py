"""`hub bench serving`: CPU of an environment server per tool call, in both eras of MCP, and per episode.

The load generator in this process writes HTTP requests itself. Only the CPU of the server's process counts, after a
warm-up.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import aiohttp
import anyio
import msgspec

from rollouthub.errors import HubError
from rollouthub.hosting.client.agent_plane_client import RemotePlane
from rollouthub.hosting.open_host import open_served
from rollouthub.limits import Deadlines
from rollouthub.messages import assistant
from rollouthub.protocols import EnvironmentHost, Episode, TaskCard
from rollouthub.score import Submission
from rollouthub.task import BadRow
from rollouthub.telemetry.cpu import children_cpu_seconds

Era = Literal["2026-07-28", "2025-11-25"]
REPETITIONS = 3
WARM_UP = 300
_CALL = {"name": "calculate", "arguments": {"expression": "123456 + 654321"}}
_CLIENT = {"name": "bench", "version": "1"}


@dataclass(frozen=True)
class ServingRow:
    """The server's CPU for one kind of work."""

    work: str
    clients: int
    cpu_ms: float
    """CPU milliseconds of the server's process per call or episode."""
    per_second: float
    count: int


def as_json(rows: Sequence[ServingRow]) -> dict[str, Any]:
    """The rows as `hub bench serving --json` prints them."""
    return {"rows": [asdict(row) for row in rows]}


async def measure_serving(calls: int, clients: Sequence[int], say: Callable[[str], None]) -> list[ServingRow]:
    """Serve `arithmetic` from its own process and load it; each figure is the best of three tries.

    Raises:
        HubError: the server did not start, or answered a call with an error.
    """
    rows: list[ServingRow] = []
    async with open_served("arithmetic", {"size": 10}) as host:
        card = await anext(aiter(host.tasks("test", 0)))
        assert not isinstance(card, BadRow)
        eras: tuple[Era, ...] = ("2026-07-28", "2025-11-25")
        for era in eras:
            for count in clients:
                say(f"tools/call, {era}, {count} clients …")
                rows.append(await _calls(host, card, era, count, calls))
        for count in clients:
            say(f"episodes, {count} at once …")
            rows.append(await _episodes(host, card, count, max(WARM_UP, calls // 4)))
    return rows


async def _calls(host: EnvironmentHost, card: TaskCard, era: Era, clients: int, calls: int) -> ServingRow:
    """Measure calls of one tool by this many clients, each in its own episode."""
    row: ServingRow | None = None
    async with (
        anyio.create_task_group() as episodes,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        callers: list[Callable[[], Awaitable[None]]] = []
        for _ in range(clients):
            episode = await episodes.start(_hold, host, card)
            plane = episode.seats["agent"]
            assert isinstance(plane, RemotePlane)
            callers.append(await open_caller(session, plane.url, era))
        await spread(callers, WARM_UP)
        row = await _best(f"tools/call, {era}", clients, calls, lambda: spread(callers, calls))
        episodes.cancel_scope.cancel()
    assert row is not None
    return row


async def _hold(host: EnvironmentHost, card: TaskCard, *, task_status: anyio.abc.TaskStatus[Episode]) -> None:
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        task_status.started(episode)
        await anyio.sleep_forever()


async def open_caller(session: aiohttp.ClientSession, url: str, era: Era) -> Callable[[], Awaitable[None]]:
    """Open an MCP client of one seat; returns a function that makes one tool call."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": era,
    }
    params: dict[str, Any] = dict(_CALL)
    if era == "2026-07-28":
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "calculate"}
        names = {"protocolVersion": era, "clientCapabilities": {}, "clientInfo": _CLIENT}
        params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in names.items()}
    else:
        opening = {"protocolVersion": era, "capabilities": {}, "clientInfo": _CLIENT}
        _, answered = await _post(session, url, headers, _request("initialize", opening))
        headers["Mcp-Session-Id"] = answered["Mcp-Session-Id"]
        await _post(session, url, headers, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    body = msgspec.json.encode(_request("tools/call", params))

    async def call() -> None:
        raw, _ = await _post(session, url, headers, body)
        if b"777777" not in raw:
            raise HubError(f"the server answered a call of the benchmark with {raw[:200]!r}")

    return call


def _request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def _post(session: aiohttp.ClientSession, url: str, headers: dict[str, str], body: Any) -> tuple[bytes, Any]:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    async with session.post(url, data=data, headers=headers) as response:
        return await response.read(), response.headers


async def _episodes(host: EnvironmentHost, card: TaskCard, clients: int, count: int) -> ServingRow:
    """Measure episodes that are opened, verified and closed without a tool call."""

    async def play() -> None:
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            await episode.conclude(Submission(transcript=(assistant("7"),)))

    players = [play] * clients
    await spread(players, WARM_UP)
    return await _best("episode: open, verify, close", clients, count, lambda: spread(players, count))


async def spread(callers: Sequence[Callable[[], Awaitable[None]]], count: int) -> None:
    """Make `count` calls in total, with all callers running concurrently."""
    left = iter(range(count))

    async def work(call: Callable[[], Awaitable[None]]) -> None:
        for _ in left:
            await call()

    async with anyio.create_task_group() as workers:
        for call in callers:
            workers.start_soon(work, call)


async def _best(work: str, clients: int, count: int, load: Callable[[], Awaitable[None]]) -> ServingRow:
    tries: list[ServingRow] = []
    for _ in range(REPETITIONS):
        wall, server = time.perf_counter(), children_cpu_seconds()
        await load()
        spent = (children_cpu_seconds() - server) / count * 1000
        rate = count / (time.perf_counter() - wall)
        tries.append(ServingRow(work, clients, round(spent, 4), round(rate, 1), count))
    return min(tries, key=lambda row: row.cpu_ms)
