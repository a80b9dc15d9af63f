"""Repeats the environment's part of recorded rollouts: opening, tool calls and verification, each measured alone."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TypeVar

import anyio

from rollouthub.bench.layer import Layer, LayerName
from rollouthub.bench.meter import Meter
from rollouthub.bench.overhead_cell import spread
from rollouthub.engine.sample import Sample
from rollouthub.generation import ModelRequest
from rollouthub.messages import Message
from rollouthub.protocols import Episode
from rollouthub.rollout import Rollout, ToolCall
from rollouthub.score import Submission
from rollouthub.telemetry.cpu import children_cpu_seconds

Of = TypeVar("Of")

_MOST_OPERATIONS = 100_000


@dataclass(frozen=True)
class Step:
    """One action of an agent in its environment."""

    seat: str
    call: ToolCall | None
    said: Sequence[Message] = ()
    """The conversation that the environment's user answers, if the action was a message and not a call."""


@dataclass(frozen=True)
class Recorded:
    """A rollout that was played, as material for repetitions."""

    sample: Sample
    asked: Sequence[ModelRequest]
    steps: Sequence[Step]
    submission: Submission
    rollout: Rollout


class World:
    """Repeats and measures the environment's part of rollouts: opening, tool calls, and verification."""

    def __init__(self, played: Sequence[Recorded], in_flight: int, seconds: float) -> None:
        self._played, self._in_flight, self._seconds = played, in_flight, seconds
        self.opening, self.steps, self.verdicts = (Meter(children_cpu_seconds) for _ in range(3))

    async def measure(self) -> None:
        """Measure opening, tool calls and verification.

        Raises:
            EpisodeError: the environment failed.
        """
        with self.opening.running():
            records = for_a_while(self._played, self._seconds, self._in_flight)
            await spread(self._open_and_close, records, self._in_flight)
        records = cycle(self._played)
        end = time.perf_counter() + 2 * self._seconds
        while not self.verdicts.operations or time.perf_counter() < end:
            await self._wave(list(islice(records, self._in_flight)))

    async def _open_and_close(self, record: Recorded) -> None:
        context = record.sample.context

        async def both() -> None:
            async with context.host.open(record.sample.task, seed=record.sample.seed, deadlines=context.deadlines):
                pass

        await self.opening.time(both())

    async def _wave(self, records: Sequence[Recorded]) -> None:
        """Open all episodes; then make only their tool calls, then only their verifications."""
        held: list[tuple[Recorded, Episode]] = []
        ready, done = anyio.Event(), anyio.Event()

        async def hold(record: Recorded) -> None:
            context = record.sample.context
            async with context.host.open(
                record.sample.task, seed=record.sample.seed, deadlines=context.deadlines
            ) as episode:
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
        """The measurements of environment and verifier."""
        found = [self.opening.layer("environment", "open and close", 1)]
        if self.steps.operations:
            found.append(self.steps.layer("environment", "tool call", self._steps_each))
        return [*found, self.verdicts.layer("verifier", "verdict", 1)]

    def transport(self, near: "World") -> list[Layer]:
        """The time that the transport adds to the same operations, which `near` measured in this process."""
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


def for_a_while(of: Sequence[Of], seconds: float, least: int) -> Iterator[Of]:
    """Iterate over the items repeatedly, for `seconds` and at least `least` times."""
    end = time.perf_counter() + seconds
    for number, each in enumerate(cycle(of)):
        if number == _MOST_OPERATIONS or (number >= least and time.perf_counter() >= end):
            return
        yield each
