"""The measured process of `hub bench gateway`: a gateway with open episodes, until stdin is closed."""

import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from pydantic import JsonValue

from rollouthub.engine.attempt import Attempt
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.event_loop import run_async
from rollouthub.gateway.gateway import Gateway, open_gateway
from rollouthub.generation import Model, ModelRequest, Sampling
from rollouthub.hosting.open_host import configured, open_in_process, open_served
from rollouthub.limits import Deadlines, Limits
from rollouthub.messages import user
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_model
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import EnvironmentHost, Seat, SeatAddress, TaskCard
from rollouthub.rollout import AgentRef, EnvironmentRef, Stop, TaskRef
from rollouthub.task import BadRow
from rollouthub.telemetry.memory import resident_bytes

PROMPT = "What is 123456 + 654321?"
_LONG = Deadlines(agent=86400.0, episode=90000.0)
_WARM_UP = 200
_SETTINGS: dict[str, JsonValue] = {"size": 10}


class _Waiter:
    """An agent that waits while an external client plays its seat."""

    name, version = "bench", "1"

    def __init__(self) -> None:
        self.config: dict[str, JsonValue] = {}
        self.taken: list[SeatAddress] = []
        self.changed = anyio.Event()

    async def play(self, seat: Seat) -> Stop:
        """Never called, since the agent only plays exposed seats."""
        raise AssertionError

    async def play_exposed(self, seat: Seat, address: SeatAddress) -> Stop:
        """Record the seat's address, and wait until the episode is over."""
        self.taken.append(address)
        self.changed.set()
        self.changed = anyio.Event()
        await address.over()
        return Stop.FINISHED


@asynccontextmanager
async def _host(leg: str) -> AsyncGenerator[EnvironmentHost]:
    if leg == "forwarded":
        async with open_served("arithmetic", _SETTINGS) as host:
            yield host
    else:
        found = find_environment("arithmetic")
        async with open_in_process("arithmetic", found.environment, configured(found, _SETTINGS)) as host:
            yield host


@asynccontextmanager
async def _model(url: str | None) -> AsyncGenerator[Model | None]:
    if url is None:
        yield None
        return
    async with open_model(ModelConfig(name="hosted_vllm/mock/solver", base_url=url), Credentials({})) as model:
        yield model


async def _play(sample: Sample) -> None:
    await Attempt(sample, 0, 0.0, lambda attempt: None).play()


async def _open(
    host: EnvironmentHost, gateway: Gateway, model: Model | None, count: int, agent: _Waiter
) -> list[Sample]:
    card = await anext(aiter(host.tasks("test", 0)))
    assert not isinstance(card, BadRow)
    context = _context(host, gateway, model, agent)
    return [_sample(context, card, number) for number in range(count)]


def _context(host: EnvironmentHost, gateway: Gateway, model: Model | None, agent: _Waiter) -> SampleContext:
    info = host.info
    return SampleContext(
        run_id="bench",
        host=host,
        environment=EnvironmentRef(name=info.name, version=info.version, digest=info.digest),
        agent=agent,
        agent_ref=AgentRef(name=agent.name, version=agent.version),
        model=model,
        sampling=Sampling(),
        limits=Limits(),
        deadlines=_LONG,
        gateway=gateway,
    )


def _sample(context: SampleContext, card: TaskCard, number: int) -> Sample:
    task = TaskRef(split=card.split, id=card.public.id, digest=card.digest)
    return Sample(context, card, task, "bench", f"bench-{number}", number, 0, None)


async def _serve(leg: str, count: int, url: str | None) -> None:
    """Open the episodes, print their addresses and the memory they took, and wait for the end of stdin."""
    agent = _Waiter()
    async with (
        _host(leg) as host,
        _model(url) as model,
        open_gateway() as gateway,
        anyio.create_task_group() as episodes,
    ):
        items = await _open(host, gateway, model, count + 1, agent)
        episodes.start_soon(_play, items[0])  # what the first loads is the gateway's, and no episode's
        await _until(agent, 1)
        before = resident_bytes()
        for sample in items[1:]:
            episodes.start_soon(_play, sample)
        await _until(agent, count + 1)
        said = {
            "agent_urls": [address.agent_url for address in agent.taken[1:]],
            "llm_urls": [address.llm_url for address in agent.taken[1:]],
            "episodes_mb": (resident_bytes() - before) / 2**20,
        }
        _say(said)
        await anyio.to_thread.run_sync(sys.stdin.read)
        episodes.cancel_scope.cancel()


async def _until(agent: _Waiter, count: int) -> None:
    while len(agent.taken) < count:
        await agent.changed.wait()


async def _call_directly(count: int, concurrency: int, url: str) -> None:
    """Measure the CPU of the same model calls on the direct lane, without a gateway."""
    async with _model(url) as model:
        assert model is not None

        async def work(calls: int) -> None:
            for _ in range(calls):
                await model.generate(ModelRequest([user(PROMPT)]))

        async def load(calls: int) -> None:
            async with anyio.create_task_group() as workers:
                for _ in range(concurrency):
                    workers.start_soon(work, calls // concurrency)

        await load(max(_WARM_UP, concurrency))
        tries: list[float] = []
        for _ in range(3):
            began = time.process_time()
            await load(count)
            tries.append((time.process_time() - began) / (count // concurrency * concurrency) * 1000)
        _say({"cpu_ms": min(tries)})


def _say(figures: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def _main(order: dict[str, Any]) -> None:
    if order["leg"] == "direct":
        run_async(_call_directly, order["count"], order["concurrency"], order["url"])
    else:
        run_async(_serve, order["leg"], order["episodes"], order.get("url"))


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
