"""`hub bench gateway`: CPU of the gateway per tool call and model call, and memory of idle episodes.

The gateway runs in its own process. The load generator, the mock model server and the environment run in other
processes, so that only the gateway's CPU counts. Each figure is the best of three tries.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import aiohttp
import anyio
import msgspec

from rollouthub.bench.cell import mock_server, run_cell
from rollouthub.bench.env_server import open_caller, spread
from rollouthub.bench.gateway_cell import PROMPT
from rollouthub.errors import HubError
from rollouthub.processes import PYTHON
from rollouthub.telemetry.cpu import process_cpu_seconds

REPETITIONS = 3
WARM_UP = 300
IDLE_EPISODES = 1000
STREAM_MODEL_TRIES = 60
_CELL = [*PYTHON, "-m", "rollouthub.bench.gateway_cell"]


@dataclass(frozen=True)
class GatewayRow:
    """CPU milliseconds of the gateway's process per call, for one kind of call."""

    work: str
    episodes: int
    cpu_ms: float
    per_second: float
    count: int


@dataclass(frozen=True)
class GatewayReport:
    """All measurements of the gateway; CPU per tool call is the highest over the numbers of episodes."""

    rows: list[GatewayRow]
    hosted_cpu_ms_per_call: float
    forwarded_cpu_ms_per_call: float
    seam_cpu_ms_per_call: float
    """CPU milliseconds that the gateway's model API adds to a model call on the direct lane."""
    direct_cpu_ms_per_call: float
    first_token_delay_ms: float
    """Median time to a stream's first words through the gateway, minus the same without it."""
    idle_episodes_mb: float
    """Resident memory of 1,000 open episodes, in megabytes."""

    def as_json(self) -> dict[str, Any]:
        """The report as `hub bench gateway --json` prints it."""
        return asdict(self)


async def measure_gateway(calls: int, levels: Sequence[int], say: Callable[[str], None]) -> GatewayReport:
    """Measure tool calls (hosted and forwarded) at each number of episodes, model calls, and memory.

    Raises:
        HubError: a process did not start, or a call was answered with an error.
    """
    rows: list[GatewayRow] = []
    for leg in ("hosted", "forwarded"):
        for level in levels:
            say(f"tools/call, {leg}, {level} episodes …")
            rows.append(await _tool_calls(leg, level, max(calls, level)))
    with mock_server() as url:
        level = min(32, max(levels))
        say("model calls on the direct lane alone …")
        order = {"leg": "direct", "url": url, "count": calls, "concurrency": level}
        direct: float = run_cell("gateway_cell", json.dumps(order), what="the direct lane")["cpu_ms"]
        say("model calls through the model API …")
        rows.append(await _model_calls(url, level, calls))
        say("first words of a stream …")
        delay = await _first_words(url)
    say(f"{IDLE_EPISODES} episodes that wait …")
    with _cell({"leg": "hosted", "episodes": IDLE_EPISODES}) as (_, said):
        idle = said["episodes_mb"]
    return GatewayReport(
        rows,
        hosted_cpu_ms_per_call=_worst(rows, "tools/call, hosted"),
        forwarded_cpu_ms_per_call=_worst(rows, "tools/call, forwarded"),
        seam_cpu_ms_per_call=round(_worst(rows, "chat/completions") - direct, 4),
        direct_cpu_ms_per_call=round(direct, 4),
        first_token_delay_ms=round(delay, 3),
        idle_episodes_mb=round(idle, 1),
    )


def _worst(rows: Sequence[GatewayRow], work: str) -> float:
    return max(row.cpu_ms for row in rows if row.work == work)


@contextmanager
def _cell(order: dict[str, Any]) -> Generator[tuple[int, dict[str, Any]]]:
    """Run a gateway in its own process; yields its process id and the JSON that it printed when it was ready."""
    with subprocess.Popen(
        [*_CELL, json.dumps(order)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                assert process.stderr is not None
                raise HubError(f"the gateway of the benchmark did not come up:\n{process.stderr.read()[-2000:]}")
            yield process.pid, json.loads(line)
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


async def _tool_calls(leg: str, episodes: int, calls: int) -> GatewayRow:
    with _cell({"leg": leg, "episodes": episodes}) as (pid, said):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            callers = [await open_caller(session, url, "2026-07-28") for url in said["agent_urls"]]
            return await _best(f"tools/call, {leg}", callers, calls, pid)


async def _model_calls(url: str, episodes: int, calls: int) -> GatewayRow:
    body = msgspec.json.encode({"model": "any", "messages": [{"role": "user", "content": PROMPT}]})
    with _cell({"leg": "hosted", "episodes": episodes, "url": url}) as (pid, said):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            callers = [_asker(session, f"{base}/chat/completions", body) for base in said["llm_urls"]]
            return await _best("chat/completions", callers, calls, pid)


def _asker(session: aiohttp.ClientSession, url: str, body: bytes) -> Callable[[], Awaitable[None]]:
    async def ask() -> None:
        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
            raw = await response.read()
            if response.status != 200:
                raise HubError(f"the model API answered a call of the benchmark with {raw[:200]!r}")

    return ask


async def _best(work: str, callers: Sequence[Callable[[], Awaitable[None]]], count: int, pid: int) -> GatewayRow:
    await spread(callers, max(WARM_UP, len(callers)))
    tries: list[GatewayRow] = []
    for _ in range(REPETITIONS):
        wall, before = time.perf_counter(), process_cpu_seconds(pid)
        await spread(callers, count)
        spent = (process_cpu_seconds(pid) - before) / count * 1000
        rate = count / (time.perf_counter() - wall)
        tries.append(GatewayRow(work, len(callers), round(spent, 4), round(rate, 1), count))
    return min(tries, key=lambda row: row.cpu_ms)


async def _first_words(url: str) -> float:
    """Milliseconds that the gateway adds before a stream's first words; calls with and without it alternate."""
    body = {
        "model": "mock/solver",
        "messages": [{"role": "user", "content": PROMPT}],
        "stream": True,
    }
    encoded = msgspec.json.encode(body)
    with _cell({"leg": "hosted", "episodes": 1, "url": url}) as (_, said):
        through: list[float] = []
        without: list[float] = []
        async with aiohttp.ClientSession() as session:
            for _ in range(STREAM_MODEL_TRIES):
                without.append(await _until_words(session, f"{url}/chat/completions", encoded))
                through.append(await _until_words(session, f"{said['llm_urls'][0]}/chat/completions", encoded))
    return (statistics.median(through) - statistics.median(without)) * 1000


async def _until_words(session: aiohttp.ClientSession, url: str, body: bytes) -> float:
    began = time.perf_counter()
    with anyio.fail_after(30):
        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
            first: float | None = None
            async for line in response.content:
                if (
                    first is None
                    and (b'"content":"' in line or b'"tool_calls"' in line)
                    and b'"content":""' not in line
                ):
                    first = time.perf_counter() - began
    if first is None:
        raise HubError(f"{url.rpartition('/llm/')[0] or url} streamed no words")
    return first
