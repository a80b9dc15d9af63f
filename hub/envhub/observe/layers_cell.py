"""One cell of `hub bench layers`, in a process of its own: every layer alone, or one whole run; prints JSON.

What is measured is what a run really does. First a few rollouts are played; then their model calls are made again, and
nothing else, their tool calls, their verdicts.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle, islice
from pathlib import Path
from typing import TypeVar

import anyio
import msgspec

from envhub.engine.item import Item
from envhub.engine.open_plan import OpenPlan, open_plan
from envhub.engine.plan import make_plan
from envhub.engine.play import Attempt
from envhub.engine.request import RunRequest
from envhub.errors import HubError, UsageError, first_error
from envhub.hosting.toolbox import REPLY
from envhub.loop import run_async
from envhub.messages import Message
from envhub.models.credentials import Credentials, load_credentials
from envhub.observe.cpu import children_cpu_seconds, process_cpu_seconds
from envhub.observe.layer import Alone, Layer, LayerName, Setup
from envhub.observe.layers_run import play
from envhub.observe.meter import Meter
from envhub.observe.overhead_cell import spread
from envhub.observe.schedule import Simulation
from envhub.protocols import Episode, Model, ModelReply, ModelRequest
from envhub.rollout import Rollout, ToolCall
from envhub.store import open_writer
from envhub.submission import Submission
from envhub.transcript import conversation_of, submission_of

Of = TypeVar("Of")

SCHEDULED = 20_000
"""Samples of the simulated schedule."""
RECORDS = 500
"""Committed in one stretch."""
_MOST_OPERATIONS = 100_000


class Listening:
    """A model that keeps what it is asked."""

    def __init__(self, model: Model) -> None:
        self.name, self._model = model.name, model
        self.asked: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer, and keep the question."""
        self.asked.append(replace(request, messages=tuple(request.messages)))  # the agent goes on with its list
        return await self._model.generate(request)


@dataclass(frozen=True)
class Step:
    """What an agent did to its world."""

    seat: str
    call: ToolCall | None
    said: Sequence[Message] = ()
    """Where it was no call: the conversation the environment's user answers to."""


@dataclass(frozen=True)
class Recorded:
    """A rollout that was played, to be done again in parts."""

    item: Item
    asked: Sequence[ModelRequest]
    steps: Sequence[Step]
    submission: Submission
    rollout: Rollout


async def alone(setup: Setup, credentials: Credentials) -> Alone:
    """Every layer by itself.

    Raises:
        HubError: something is not up, or no rollout could be scored.
    """
    request, seconds = setup.request, setup.seconds
    in_flight = request.concurrency
    async with open_plan(make_plan(request), credentials) as opened:
        tasks, _ = await opened.count()
        played = await _play_some(opened, in_flight)
        assert opened.model is not None
        layers = await _model(opened.model, played, in_flight, setup)
        if setup.reach == "model":
            return Alone(layers=tuple(layers), tasks=tasks)
        world = World(played, in_flight, seconds)
        await world.measure()
        layers += world.layers()
        kept = [await _store(opened, played, in_flight, seconds), _schedule(seconds)]
    if setup.reach == "all":
        layers += await _transport(request, credentials, played, seconds, world)
    return Alone(layers=(*layers, *kept), tasks=tasks)


async def _play_some(opened: OpenPlan, in_flight: int) -> list[Recorded]:
    """As many rollouts as there are in flight, played in full."""
    items: list[Item] = []
    async for _, item in opened.items(""):
        items.append(item)
        if len(items) == in_flight:
            break
    played: list[Recorded] = []
    broken: list[Rollout] = []

    async def record(item: Item) -> None:
        assert item.cast.model is not None
        model = Listening(item.cast.model)
        attempt = Attempt(replace(item, cast=replace(item.cast, model=model)), 0, 0.0, lambda attempt: None)
        rollout = await attempt.play()
        if rollout.score is None:
            broken.append(rollout)
            return
        steps = list(_steps(rollout, opened))
        played.append(Recorded(item, model.asked, steps, submission_of(rollout), rollout))

    await spread(record, items, in_flight)
    if not played:
        fault = broken[0].faults[0] if broken[0].faults else None
        why = broken[0].outcome.value if fault is None else f"{fault.boundary}: {fault.message}"
        raise HubError(f"none of {len(broken)} rollouts was scored, so that there is nothing to measure; {why}")
    return played


def _steps(rollout: Rollout, opened: OpenPlan) -> Iterator[Step]:
    has_user = any(tool.name == REPLY for tool in opened.environments[0].host.info.tools)
    for number, turn in enumerate(rollout.turns, 1):
        for call in turn.tool_calls:
            if isinstance(call.arguments, dict):  # others never reached the environment
                yield Step(turn.agent, call)
        if has_user and not turn.response.tool_requests:
            so_far = rollout.model_copy(update={"turns": rollout.turns[:number]})
            yield Step(turn.agent, None, conversation_of(so_far, turn.agent))


async def _model(model: Model, played: Sequence[Recorded], in_flight: int, setup: Setup) -> list[Layer]:
    requests = [request for each in played for request in each.asked]
    if not requests:
        return []
    pid = setup.model_pid
    found: list[Meter] = []
    for level in (in_flight, 2 * in_flight):
        meter = Meter(lambda: 0.0 if pid is None else process_cpu_seconds(pid))

        async def ask(request: ModelRequest, meter: Meter = meter) -> None:
            await meter.time(model.generate(request))

        with meter.running():
            await spread(ask, for_a_while(requests, setup.seconds, level), level)
        found.append(meter)
    layer = found[0].layer("model", "call", len(requests) / len(played))
    twice = round(len(found[1].operations) / found[1].wall, 2)
    return [layer.model_copy(update={"at_twice": twice})]


async def _transport(
    request: RunRequest, credentials: Credentials, played: Sequence[Recorded], seconds: float, near: "World"
) -> list[Layer]:
    """The environment's side once more, of a server this time."""
    served = make_plan(request.model_copy(update={"served": True, "in_process": False}))
    async with open_plan(served, credentials) as opened:
        wanted = {each.item.rollout_id: each for each in played}
        moved: list[Recorded] = []
        async for _, item in opened.items(""):
            if (found := wanted.pop(item.rollout_id, None)) is not None:
                moved.append(replace(found, item=item))
            if not wanted:
                break
        far = World(moved, request.concurrency, seconds)
        await far.measure()
        return far.transport(near)


class World:
    """The environment's side of rollouts: opened, acted in, judged, each apart from the others."""

    def __init__(self, played: Sequence[Recorded], in_flight: int, seconds: float) -> None:
        self._played, self._in_flight, self._seconds = played, in_flight, seconds
        self.opening, self.steps, self.verdicts = (Meter(children_cpu_seconds) for _ in range(3))

    async def measure(self) -> None:
        """Measure all three.

        Raises:
            EpisodeError: the environment broke.
        """
        with self.opening.running():
            records = for_a_while(self._played, self._seconds, self._in_flight)
            await spread(self._open_and_close, records, self._in_flight)
        records = cycle(self._played)
        end = time.perf_counter() + 2 * self._seconds
        while not self.verdicts.operations or time.perf_counter() < end:
            await self._wave(list(islice(records, self._in_flight)))

    async def _open_and_close(self, record: Recorded) -> None:
        cast = record.item.cast

        async def both() -> None:
            async with cast.host.open(record.item.task, seed=record.item.seed, deadlines=cast.deadlines):
                pass

        await self.opening.time(both())

    async def _wave(self, records: Sequence[Recorded]) -> None:
        """Open all; then only their steps, then only their verdicts, are made."""
        held: list[tuple[Recorded, Episode]] = []
        ready, done = anyio.Event(), anyio.Event()

        async def hold(record: Recorded) -> None:
            cast = record.item.cast
            async with cast.host.open(record.item.task, seed=record.item.seed, deadlines=cast.deadlines) as episode:
                held.append((record, episode))
                if len(held) == len(records):
                    ready.set()
                await done.wait()

        async with anyio.create_task_group() as holders:
            for record in records:
                holders.start_soon(hold, record)
            await ready.wait()
            with self.steps.running():
                await spread(self._act, held, self._in_flight)
            with self.verdicts.running():
                await spread(self._judge, held, self._in_flight)
            done.set()

    async def _act(self, holding: tuple[Recorded, Episode]) -> None:
        record, episode = holding
        for step in record.steps:
            seat = episode.seats[step.seat]
            if step.call is None:
                await self.steps.time(seat.reply(step.said))
            else:
                assert isinstance(step.call.arguments, dict)
                await self.steps.time(seat.call_tool(step.call.name, step.call.arguments))

    async def _judge(self, holding: tuple[Recorded, Episode]) -> None:
        record, episode = holding
        await self.verdicts.time(episode.conclude(record.submission))

    def layers(self) -> list[Layer]:
        """What environment and verifier take."""
        found = [self.opening.layer("environment", "open and close", 1)]
        if self.steps.operations:
            found.append(self.steps.layer("environment", "tool call", self._steps_each))
        return [*found, self.verdicts.layer("verifier", "verdict", 1)]

    def transport(self, near: "World") -> list[Layer]:
        """What is added to that by the way there: the same was done in this process by `near`."""
        name: LayerName = "transport"
        found = [
            self.opening.layer(name, "open and close, served", 1, without=near.opening),
            self.verdicts.layer(name, "verdict, served", 1, without=near.verdicts),
        ]
        if self.steps.operations:
            found.insert(1, self.steps.layer(name, "tool call over MCP", self._steps_each, without=near.steps))
        return found

    @property
    def _steps_each(self) -> float:
        return sum(len(each.steps) for each in self._played) / len(self._played)


async def _store(opened: OpenPlan, played: Sequence[Recorded], in_flight: int, seconds: float) -> Layer:
    """Commits; an operation's wall time is what a player waits for."""
    meter = Meter(lambda: 0.0)
    rollouts, numbers = cycle([each.rollout for each in played]), count()
    end = time.perf_counter() + seconds
    with tempfile.TemporaryDirectory() as folder:
        async with open_writer(Path(folder) / "run", resolved=opened.resolved, given="", resume=False) as writer:

            async def add(rollout: Rollout) -> None:
                await meter.time(writer.add(rollout))

            while not meter.operations or time.perf_counter() < end:
                records = [
                    rollout.model_copy(update={"rollout_id": f"{rollout.rollout_id}-{next(numbers)}"})
                    for rollout in islice(rollouts, RECORDS)
                ]
                with meter.running():
                    await spread(add, records, in_flight)
                    await writer.flush()
    return meter.layer("store", "record", 1)


def _schedule(seconds: float) -> Layer:
    """The schedule of a large run, in virtual time."""
    row = Simulation(SCHEDULED if seconds >= 1 else SCHEDULED // 10).run()
    each = row.microseconds_per_item
    return Layer(
        layer="schedule", work="sample", per_rollout=1, per_second=round(1e6 / each, 1), cpu_ms=round(each / 1000, 4)
    )


def for_a_while(of: Sequence[Of], seconds: float, least: int) -> Iterator[Of]:
    """One after the other, over and over, for so long; at least so many."""
    end = time.perf_counter() + seconds
    for number, each in enumerate(cycle(of)):
        if number == _MOST_OPERATIONS or (number >= least and time.perf_counter() >= end):
            return
        yield each


def main() -> None:
    """`python -m envhub.observe.layers_cell alone|run SETUP`; the setup is JSON, and so is what is printed."""
    what, given = sys.argv[1:]
    setup = Setup.model_validate_json(given)
    try:
        credentials = load_credentials(os.environ, Path.cwd())
        said = run_async(alone if what == "alone" else play, setup, credentials).model_dump_json().encode()
    except (HubError, BaseExceptionGroup) as error:
        first = first_error(error) if isinstance(error, BaseExceptionGroup) else error
        if not isinstance(first, HubError):
            raise
        said = msgspec.json.encode({"error": str(first), "is_usage": isinstance(first, UsageError)})
    sys.stdout.write(said.decode() + "\n")


if __name__ == "__main__":
    main()
