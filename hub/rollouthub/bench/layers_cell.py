"""One measurement of `hub bench layers`, in its own process: all layers alone, or one whole run; prints JSON.

The layers repeat operations of real rollouts: a few rollouts are played first, and then only their model calls, only
their tool calls, or only their verifications are made again.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count, cycle, islice
from pathlib import Path

import msgspec

from rollouthub.bench.layer import Alone, Layer, Setup
from rollouthub.bench.layers_run import play
from rollouthub.bench.layers_world import Recorded, Step, World, for_a_while
from rollouthub.bench.meter import Meter
from rollouthub.bench.overhead_cell import spread
from rollouthub.bench.schedule import Simulation
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.sample import Sample
from rollouthub.errors import HubError, UsageError, first_error
from rollouthub.event_loop import run_async
from rollouthub.generation import Model, ModelReply, ModelRequest
from rollouthub.hosting.local.toolbox import REPLY
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.rollout import Rollout, conversation_of, submission_of
from rollouthub.store import open_writer
from rollouthub.telemetry.cpu import process_cpu_seconds

SCHEDULED = 20_000
"""Number of samples in the simulated schedule."""
RECORDS = 500
"""Number of records committed between two time checks."""


class Listening:
    """A model that records its requests."""

    def __init__(self, model: Model) -> None:
        self.name, self._model = model.name, model
        self.asked: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Record the request, and answer it."""
        self.asked.append(replace(request, messages=tuple(request.messages)))  # the agent goes on with its list
        return await self._model.generate(request)


async def alone(setup: Setup, credentials: Credentials) -> Alone:
    """Measure every layer alone.

    Raises:
        HubError: a server does not answer, or no rollout was scored.
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
    """Play as many full rollouts as are in flight at a time, and return those that were scored."""
    items: list[Sample] = []
    async with aclosing(opened.items("")) as planned:
        async for _, sample in planned:
            items.append(sample)
            if len(items) == in_flight:
                break
    played: list[Recorded] = []
    broken: list[Rollout] = []

    async def record(sample: Sample) -> None:
        assert sample.context.model is not None
        model = Listening(sample.context.model)
        attempt = Attempt(replace(sample, context=replace(sample.context, model=model)), 0, 0.0, lambda attempt: None)
        rollout = await attempt.play()
        if rollout.score is None:
            broken.append(rollout)
            return
        steps = list(_steps(rollout, opened))
        played.append(Recorded(sample, model.asked, steps, submission_of(rollout), rollout))

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
        meter = Meter(lambda: 0.0 if pid is None else process_cpu_seconds(pid), pid)

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
    """Measure the environment again with a server, to get the time that the transport adds."""
    served = make_plan(request.model_copy(update={"served": True, "in_process": False}))
    async with open_plan(served, credentials) as opened:
        wanted = {each.sample.rollout_id: each for each in played}
        moved: list[Recorded] = []
        async with aclosing(opened.items("")) as items:
            async for _, sample in items:
                if (found := wanted.pop(sample.rollout_id, None)) is not None:
                    moved.append(replace(found, sample=sample))
                if not wanted:
                    break
        far = World(moved, request.concurrency, seconds)
        await far.measure()
        return far.transport(near)


async def _store(opened: OpenPlan, played: Sequence[Recorded], in_flight: int, seconds: float) -> Layer:
    """Measure commits to a run store; the wall time is that for which an episode waits."""
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
    """Measure the scheduler on a large run in virtual time."""
    row = Simulation(SCHEDULED if seconds >= 1 else SCHEDULED // 10).run()
    each = row.microseconds_per_item
    return Layer(
        layer="schedule", work="sample", per_rollout=1, per_second=round(1e6 / each, 1), cpu_ms=round(each / 1000, 4)
    )


def main() -> None:
    """Entry point: `python -m rollouthub.bench.layers_cell alone|run SETUP`, with the setup as JSON."""
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
