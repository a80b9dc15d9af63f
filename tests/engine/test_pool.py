"""Collecting: what is tried again, what is not, and how a run ends early."""

from collections.abc import AsyncIterator, Iterable, Mapping

import anyio
import pytest

from rollouthub import ModelError, Outcome, Rollout
from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.pool import LocalPool
from rollouthub.engine.run_request import Retries
from rollouthub.engine.sample import Sample
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import BudgetError, VerifierError
from rollouthub_agents.null import Null
from rollouthub_agents.oracle import Oracle
from rollouthub_agents.tool_loop import ToolLoop

from .conftest import Counter, Player, TellModel, calls


class Kept:
    """A sink in memory."""

    def __init__(self, before: int = 0) -> None:
        self.rollouts = list[Rollout]()
        self.states = list[str]()
        self._before = before

    def attempts(self, rollout_id: str) -> int:
        return self._before

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        self.rollouts.append(rollout)

    def track(self, attempt: InFlight) -> None:
        self.states.append(attempt.where().state)

    def forget(self, attempt: InFlight) -> None:
        raise AssertionError("what is taken here is begun")

    def settled(self, sample: Sample) -> None: ...


async def stream(items: Iterable[Sample]) -> AsyncIterator[Sample]:
    for sample in items:
        yield sample


async def collect(items: list[Sample], retries: Retries, *, stop: StopSignal | None = None, before: int = 0) -> Kept:
    sink = Kept(before)
    with anyio.fail_after(10):
        await LocalPool(4, retries, stop or StopSignal()).play(stream(items), sink)
    return sink


async def test_an_infrastructure_fault_is_tried_again_and_every_attempt_is_kept(attempt: Player) -> None:
    model = TellModel([ModelError("down", status=500), calls(("add", '{"step": 2}')), "done"])
    sink = await collect([attempt(ToolLoop(), model).sample], Retries(infrastructure=2))
    assert [rollout.outcome for rollout in sink.rollouts] == [Outcome.MODEL_FAILED, Outcome.SCORED]
    assert [rollout.attempt for rollout in sink.rollouts] == [0, 1]
    assert sink.rollouts[1].timings.queue > 0


async def test_attempts_are_finite(attempt: Player) -> None:
    sink = await collect([attempt(ToolLoop(), TellModel([ModelError("down")])).sample], Retries(infrastructure=2))
    assert [rollout.attempt for rollout in sink.rollouts] == [0, 1, 2]
    assert {rollout.outcome for rollout in sink.rollouts} == {Outcome.MODEL_FAILED}


async def test_a_refused_model_call_is_not_tried_again(attempt: Player) -> None:
    model = TellModel([ModelError("bad key", status=401, retryable=False)])
    sink = await collect([attempt(ToolLoop(), model).sample], Retries(infrastructure=5))
    assert len(sink.rollouts) == 1


async def test_an_agent_failure_is_not_tried_again(attempt: Player) -> None:
    sink = await collect([attempt(ToolLoop(), None).sample], Retries(infrastructure=5))
    assert [rollout.outcome for rollout in sink.rollouts] == [Outcome.AGENT_FAILED]


async def test_a_verifier_fault_has_a_budget_of_its_own(attempt: Player) -> None:
    class Flaky(Counter):
        tries = 0

        async def verify(self, submission: object):
            Flaky.tries += 1
            if Flaky.tries < 2:
                raise VerifierError("the judge is away")
            return await super().verify(submission)  # pyright: ignore[reportArgumentType]  # passed on as it came

    sink = await collect([attempt(Oracle(), environment=Flaky).sample], Retries(infrastructure=0, verifier=1))
    assert [rollout.outcome for rollout in sink.rollouts] == [Outcome.VERIFIER_FAILED, Outcome.SCORED]


async def test_attempts_are_numbered_on_from_those_kept(attempt: Player) -> None:
    sink = await collect([attempt(Null()).sample], Retries(), before=3)
    assert [rollout.attempt for rollout in sink.rollouts] == [3]


async def test_a_stop_starts_nothing_new(attempt: Player) -> None:
    stop = StopSignal()
    stop.set()
    sink = await collect([attempt(Null()).sample] * 3, Retries(), stop=stop)
    assert sink.rollouts == []


async def test_a_stop_ends_the_pause_before_a_retry(attempt: Player) -> None:
    stop, sink = StopSignal(), Kept()
    model = TellModel([ModelError("down")])
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            sample = attempt(ToolLoop(), model).sample
            group.start_soon(LocalPool(1, Retries(infrastructure=100), stop).play, stream([sample]), sink)
            while not sink.rollouts:
                await anyio.lowlevel.checkpoint()
            stop.set()
    assert len(sink.rollouts) <= 2


async def test_cancelled_attempts_are_kept_as_cancelled(attempt: Player) -> None:
    sink = Kept()
    sample = attempt(ToolLoop(), TellModel([calls(("wait", "{}"))])).sample
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(LocalPool(2, Retries(), StopSignal()).play, stream([sample, sample]), sink)
            while sink.states.count("tool") < 2:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert [rollout.outcome for rollout in sink.rollouts] == [Outcome.CANCELLED] * 2


async def test_a_finished_rollout_that_waits_for_the_disk_survives_cancellation(attempt: Player) -> None:
    class Busy(Kept):
        asked, is_ready = anyio.Event(), False

        async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
            self.asked.set()
            if not self.is_ready:
                await anyio.sleep_forever()
            await super().add(rollout, media)

    sink = Busy()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(LocalPool(1, Retries(), StopSignal()).play, stream([attempt(Null()).sample]), sink)
            await sink.asked.wait()
            sink.is_ready = True
            group.cancel_scope.cancel()
    assert [rollout.outcome for rollout in sink.rollouts] == [Outcome.SCORED]


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_every_item_is_played_once(attempt: Player, concurrency: int) -> None:
    sink = Kept()
    items = [attempt(Null()).sample] * 20
    await LocalPool(concurrency, Retries(), StopSignal()).play(stream(items), sink)
    assert len(sink.rollouts) == 20


async def test_a_spent_budget_stops_the_run_and_says_why(attempt: Player) -> None:
    sample = attempt(ToolLoop(), TellModel([BudgetError("the budget of $1 is spent")])).sample
    stop = StopSignal()
    kept = await collect([sample] * 40, Retries(), stop=stop)
    assert stop.reason == "the budget of $1 is spent"
    assert 1 <= len(kept.rollouts) <= 4  # what was in flight
    assert {rollout.outcome for rollout in kept.rollouts} == {Outcome.MODEL_FAILED}
