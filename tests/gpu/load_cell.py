"""One load on a server: episodes of four answers, played by the hub or by a bare asyncio loop that asks the same.

Both send the same requests, the results of tool calls included, with as many in flight, from one process, warmed up
before; the clock runs from the first request to the last record (the hub's is durable then) or answer.
"""

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from rollouthub.bench.overhead_cell import Count, run_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest
from rollouthub.limits import DEFAULT_LIMITS
from rollouthub.models.credentials import Credentials
from rollouthub.models.direct.lane import ASKED
from rollouthub.rollout import Rollout
from rollouthub.telemetry.cpu import cpu_seconds
from tests.gpu.cells import Given, answer

TALKING = Path(__file__).parents[1] / "vllm" / "talking.py"
"""An environment whose user asks four times, whatever is answered."""
TURNS = 4
MOST_ANSWERS = DEFAULT_LIMITS.max_turns or 50
"""Where the hub ends a conversation."""
TASKS = 64
WARM_UP = 32
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two integers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    }
]


class LoadCount(Count):
    """Counts sampled tokens and model calls, and when the last record was committed."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = self.calls = 0
        self.ended = 0.0

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Count records that are durable."""
        super().committed(rollouts)
        self.ended = time.perf_counter()
        for rollout in rollouts:
            self.calls += len(rollout.turns)
            self.tokens += sum(len(turn.output_token_ids or ()) for turn in rollout.turns)


class HeldBack(logging.Handler):
    """Counts how often the router lets fewer calls to a server, because it has slowed down or refuses some."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a warning of the router's."""
        self.times += "calls at a time for now" in record.getMessage()


def request_of(given: Given, episodes: int, concurrency: int) -> RunRequest:
    """The run that the hub plays."""
    tasks = min(TASKS, episodes)
    return RunRequest(
        environments=(str(TALKING),),
        model=f"hosted_vllm/{given['name']}",
        base_url=(given["url"],),
        concurrency=concurrency,
        limit=tasks,
        repeats=math.ceil(episodes / tasks),
        sampling=given["sampling"],
        in_process=True,
        track=(),
    )


async def hub(given: Given) -> dict[str, Any]:
    """The hub's run, with everything a run has: records, ids and log-probabilities."""
    concurrency, episodes = given["concurrency"], given["episodes"]
    warm = min(concurrency, WARM_UP)
    await run_plan(make_plan(request_of(given, warm, warm)), Credentials({}), Count())
    count, held_back = LoadCount(), HeldBack()
    logging.getLogger("rollouthub.models").addHandler(held_back)
    await run_plan(make_plan(request_of(given, episodes, concurrency)), Credentials({}), count)
    began, cpu = count.began
    return {
        "episodes": count.committed_count,
        "unscored": count.committed_count - count.scored,
        "tokens": count.tokens,
        "calls": count.calls,
        "seconds": count.ended - began,
        "cpu_seconds": cpu_seconds() - cpu,
        "held_back": held_back.times,
    }


class Loop:
    """The bare loop: a conversation of four answers for each slot, one after the other, with the tool at hand."""

    def __init__(self, given: Given, session: aiohttp.ClientSession) -> None:
        self._session, self._url = session, f"{given['url']}/chat/completions"
        sampling: dict[str, Any] = given["sampling"]
        self._body: dict[str, Any] = {
            "model": given["name"],
            "tools": TOOLS,
            "max_tokens": sampling["max_tokens"],
            "temperature": sampling["temperature"],
            **ASKED["vllm"],
            **sampling["extra"],
        }
        self.tokens = self.calls = 0

    async def play(self, episodes: int, concurrency: int) -> None:
        """Play so many conversations."""
        numbers = iter(range(episodes))

        async def slot() -> None:
            for number in numbers:
                await self._converse(number % TASKS)

        async with anyio.create_task_group() as slots:
            for _ in range(concurrency):
                slots.start_soon(slot)

    async def _converse(self, task: int) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"Add {task} and {(37 * task) % 100}."}]
        answers = 0
        for turn in range(1, TURNS + 1):
            while calls := await self._say(messages):
                answers += 1
                if answers + turn > MOST_ANSWERS:
                    return
                messages += [
                    {"role": "tool", "tool_call_id": call["id"], "content": _result(call["function"])} for call in calls
                ]
            messages.append({"role": "user", "content": f"Now add {turn + 1} to it."})

    async def _say(self, messages: list[dict[str, Any]]) -> list[Any]:
        """Append an answer to a conversation, and return its tool calls."""
        answer = await self._ask(messages)
        self.tokens += answer["usage"]["completion_tokens"]
        self.calls += 1
        said = answer["choices"][0]["message"]
        calls: list[Any] = said.get("tool_calls") or []
        messages.append(
            {"role": "assistant", "content": said["content"] or "", **({"tool_calls": calls} if calls else {})}
        )
        return calls

    async def _ask(self, messages: Sequence[Mapping[str, Any]]) -> Any:
        while True:
            try:
                async with self._session.post(self._url, json={**self._body, "messages": messages}) as response:
                    response.raise_for_status()
                    return await response.json()
            except aiohttp.ServerDisconnectedError:
                continue  # a kept connection that the server was just closing


def _result(function: Mapping[str, str]) -> str:
    """What the tool gives for a call."""
    try:
        arguments = json.loads(function["arguments"])
        return str(int(arguments["a"]) + int(arguments["b"]))
    except (ValueError, KeyError, TypeError):
        return "two integers, please"


async def loop(given: Given) -> dict[str, Any]:
    """The bare loop."""
    concurrency, episodes = given["concurrency"], given["episodes"]
    tasks = min(TASKS, episodes)
    count = tasks * math.ceil(episodes / tasks)
    unlimited = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=unlimited) as session:
        warm = min(concurrency, WARM_UP)
        await Loop(given, session).play(warm, warm)
        asked = Loop(given, session)
        began, cpu = time.perf_counter(), cpu_seconds()
        await asked.play(count, concurrency)
        seconds = time.perf_counter() - began
    return {
        "episodes": count,
        "unscored": 0,
        "tokens": asked.tokens,
        "calls": asked.calls,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds() - cpu,
    }


async def load(given: Given) -> dict[str, Any]:
    """The load that is asked for."""
    return await {"hub": hub, "loop": loop}[given["by"]](given)


if __name__ == "__main__":
    answer(load)
