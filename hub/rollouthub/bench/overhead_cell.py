"""One measurement of `hub bench overhead`, in its own process; prints its figures as JSON."""

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import anyio
from pydantic import BaseModel

from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import Plan, make_plan
from rollouthub.engine.run import play_run
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.sample import Sample
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.event_loop import run_async
from rollouthub.generation import ModelRequest
from rollouthub.messages import Message, assistant, user
from rollouthub.models.credentials import Credentials
from rollouthub.rollout import Rollout
from rollouthub.score import Submission
from rollouthub.store import open_writer
from rollouthub.telemetry.cpu import cpu_seconds
from rollouthub.telemetry.memory import resident_bytes

WARM_UP = 300
WANTED = {"logprobs": True, "return_token_ids": True}
_CALCULATE = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
PROMPT = "What is 123456 + 654321? Use the calculator, then answer with the number alone."


def plan_for(url: str, concurrency: int, rollouts: int, **more: Any) -> Plan:
    """The plan of the benchmark: arithmetic with the tool loop, on the direct lane unless `more` says otherwise."""
    return make_plan(
        RunRequest(
            environments=("arithmetic",),
            model="hosted_vllm/mock/solver",
            base_url=(url,),
            concurrency=concurrency,
            limit=rollouts,
            set={"size": rollouts},
            **more,
        )
    )


class Count:
    """An observer that counts a run's committed records and notes the process's memory."""

    def __init__(self, mark: int = 0) -> None:
        self.committed_count, self.scored = 0, 0
        self.mark_bytes: int | None = None
        self.began = (0.0, 0.0)
        """Wall and CPU seconds when the run was ready to play, with all servers up."""
        self._mark = mark

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Note the wall and CPU time at the start."""
        self.began = (time.perf_counter(), cpu_seconds())

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Count records, and note the process's memory once `mark` records are committed."""
        self.committed_count += len(rollouts)
        self.scored += sum(rollout.score is not None for rollout in rollouts)
        if self.mark_bytes is None and self.committed_count >= self._mark:
            self.mark_bytes = resident_bytes()

    def stopped(self, reason: str) -> None:
        """Do nothing: benchmarks have no budget that could stop them."""


async def run_once(
    url: str, concurrency: int, rollouts: int, count: Count, *, live: LiveRun | None = None, **more: Any
) -> None:
    """Play the benchmark's run with a run store in a temporary directory; exits if a rollout was not scored."""
    await run_plan(plan_for(url, concurrency, rollouts, **more), Credentials({}), count, live=live)
    if count.scored != rollouts:
        raise SystemExit(f"{count.scored} of {rollouts} rollouts were scored")


async def run_plan(plan: Plan, credentials: Credentials, count: Count, *, live: LiveRun | None = None) -> None:
    """Play a plan with a run store in a temporary directory."""
    with tempfile.TemporaryDirectory() as folder:
        await play_run(
            plan,
            Path(folder) / "run",
            given="",
            resume=False,
            credentials=credentials,
            observer=count,
            stop=StopSignal(),
            live=live,
        )


async def direct(url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    """Measure whole rollouts: engine, direct lane, tools, verifier and store."""
    await run_once(url, min(concurrency, 32), WARM_UP, Count())
    wall, cpu = time.perf_counter(), cpu_seconds()
    await run_once(url, concurrency, rollouts, Count())
    return _figures(wall, cpu, rollouts)


async def served(url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    """Measure as `direct`, with the environment in its own process, whose CPU counts but whose start does not."""
    count = Count()
    await run_once(url, concurrency, rollouts, count, served=True)
    return _figures(*count.began, rollouts)


async def through_litellm(url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    """Measure as `direct`, with model calls made by litellm."""
    await run_once(url, min(concurrency, 32), WARM_UP, Count(), lane="litellm")
    wall, cpu = time.perf_counter(), cpu_seconds()
    await run_once(url, concurrency, rollouts, Count(), lane="litellm")
    return _figures(wall, cpu, rollouts)


async def bare_litellm(url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    """Measure two bare calls of `litellm.acompletion`: the floor of the litellm lane."""
    from rollouthub.models.litellm.package import load_litellm

    litellm: Any = await load_litellm("the benchmark")
    tools = [{"type": "function", "function": {"name": "calculate", "parameters": _CALCULATE}}]

    async def ask(messages: list[dict[str, Any]]) -> Any:
        return await litellm.acompletion(
            model="hosted_vllm/mock/solver", base_url=url, api_key="none", messages=messages, tools=tools, **WANTED
        )

    async def play(number: int) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
        message = (await ask(messages)).choices[0].message
        call = message.tool_calls[0]
        asked = {"id": call.id, "type": "function", "function": call.function.model_dump()}
        messages.append({"role": "assistant", "content": None, "tool_calls": [asked]})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "777777"})
        await ask(messages)

    await spread(play, range(WARM_UP), 32)
    wall, cpu = time.perf_counter(), cpu_seconds()
    await spread(play, range(rollouts), concurrency)
    return _figures(wall, cpu, rollouts)


async def memory(url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    """Measure the growth of resident memory from 1,000 committed rollouts to all."""
    count = Count(mark=1000)
    await run_once(url, concurrency, rollouts, count)
    assert count.mark_bytes is not None
    return {"growth_mb": round((resident_bytes() - count.mark_bytes) / 1e6, 2)}


class BareRecord(BaseModel):
    """The record of a rollout that the floor stores."""

    rollout_id: str
    messages: list[dict[str, Any]]
    reward: float
    usage: list[dict[str, Any]]


async def floor(url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    """Measure a bare aiohttp loop: the same model calls, a pydantic record, and commits to SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "floor.db")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("CREATE TABLE record (id TEXT PRIMARY KEY, body TEXT)")
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            await _floor_rollouts(session, database, url, min(concurrency, 32), WARM_UP, "warm")
            wall, cpu = time.perf_counter(), cpu_seconds()
            await _floor_rollouts(session, database, url, concurrency, rollouts, "real")
            figures = _figures(wall, cpu, rollouts)
        database.close()
    return figures


async def _floor_rollouts(
    session: aiohttp.ClientSession, database: sqlite3.Connection, url: str, concurrency: int, count: int, name: str
) -> None:
    async with open_plan(plan_for(url, concurrency, 1), Credentials({})) as opened:
        tools = [
            {"type": "function", "function": {"name": tool.name, "parameters": tool.input_schema}}
            for tool in opened.environments[0].host.info.tools
        ]
    numbers = iter(range(count))
    waiting: list[tuple[str, str]] = []

    async def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
        body = {"model": "mock/solver", "messages": messages, "tools": tools, **WANTED}
        async with session.post(f"{url}/chat/completions", json=body) as response:
            return await response.json()

    async def play() -> None:
        for number in numbers:
            messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
            first = await ask(messages)
            message = first["choices"][0]["message"]
            call = message["tool_calls"][0]
            messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "777777"}]
            second = await ask(messages)
            messages.append(second["choices"][0]["message"])
            record = BareRecord(
                rollout_id=f"{name}-{number}", messages=messages, reward=1.0, usage=[first["usage"], second["usage"]]
            )
            waiting.append((record.rollout_id, record.model_dump_json()))
            if len(waiting) >= 100:
                commit()

    def commit() -> None:
        with database:
            database.executemany("INSERT INTO record VALUES (?, ?)", waiting)
        waiting.clear()

    async with anyio.create_task_group() as players:
        for _ in range(concurrency):
            players.start_soon(play)
    commit()


async def parts(url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    """CPU milliseconds per rollout of each part of a rollout, measured alone at the same concurrency."""
    async with open_plan(plan_for(url, concurrency, rollouts), Credentials({})) as opened:
        return await _parts(opened, url, concurrency)


async def _parts(opened: OpenPlan, url: str, concurrency: int) -> dict[str, float]:
    model, tools = opened.model, opened.environments[0].host.info.tools
    assert model is not None
    items = [sample async for _, sample in opened.items("parts")]
    opening = ModelRequest(messages=(user(PROMPT),), tools=tools)

    async def ask(sample: Sample) -> None:
        first = (await model.generate(opening)).message
        answer = Message(role="tool", content="777777", tool_call_id=first.tool_requests[0].id)
        await model.generate(ModelRequest(messages=(*opening.messages, first, answer), tools=opening.tools))

    await spread(ask, items[:WARM_UP], 32)
    calls = await _cpu(ask, items, concurrency)

    async def host(sample: Sample) -> None:
        context = sample.context
        async with context.host.open(sample.task, seed=sample.seed, deadlines=context.deadlines) as episode:
            seat = episode.seats["agent"]
            await seat.call_tool("calculate", {"expression": "123456 + 654321"})
            await episode.verify(Submission(transcript=(assistant("777777"),)))

    hosting = await _cpu(host, items, concurrency)
    return {"two model calls": calls, "environment and tool": hosting, "record and store": await _storing(opened, url)}


async def _storing(opened: OpenPlan, url: str) -> float:
    """CPU milliseconds to commit a typical rollout."""
    kept: list[Rollout] = []

    class Keep(Count):
        def committed(self, rollouts: Sequence[Rollout]) -> None:
            super().committed(rollouts)
            kept.extend(rollouts)

    await run_once(url, 32, WARM_UP, Keep())
    copies = [
        rollout.model_copy(update={"rollout_id": f"{rollout.rollout_id}{copy}"})
        for copy in range(10)
        for rollout in kept
    ]
    with tempfile.TemporaryDirectory() as folder:
        async with open_writer(Path(folder) / "run", resolved=opened.resolved, given="", resume=False) as writer:
            cpu = time.process_time()
            for rollout in copies:
                await writer.add(rollout)
            await writer.flush()
            spent = time.process_time() - cpu
    return round(spent / len(copies) * 1000, 4)


async def _cpu(work: Callable[[Sample], Awaitable[None]], items: Sequence[Sample], concurrency: int) -> float:
    cpu = time.process_time()
    await spread(work, items, concurrency)
    return round((time.process_time() - cpu) / len(items) * 1000, 4)


async def spread(work: Callable[[Any], Awaitable[None]], items: Iterable[Any], concurrency: int) -> None:
    source = iter(items)

    async def worker() -> None:
        for sample in source:
            await work(sample)

    async with anyio.create_task_group() as workers:
        for _ in range(concurrency):
            workers.start_soon(worker)


def _figures(wall: float, cpu: float, rollouts: int) -> dict[str, float]:
    return {
        "cpu_ms": round((cpu_seconds() - cpu) / rollouts * 1000, 4),
        "per_second": round(rollouts / (time.perf_counter() - wall), 1),
    }


def main() -> None:
    """Entry point: `python -m rollouthub.bench.overhead_cell LANE URL CONCURRENCY ROLLOUTS`."""
    cells = {
        "direct": direct,
        "served": served,
        "litellm": through_litellm,
        "two litellm calls": bare_litellm,
        "floor": floor,
        "parts": parts,
        "memory": memory,
    }
    lane, url, concurrency, rollouts = sys.argv[1:]
    sys.stdout.write(json.dumps(run_async(cells[lane], url, int(concurrency), int(rollouts))) + "\n")


if __name__ == "__main__":
    main()
