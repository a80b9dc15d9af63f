"""Ending and retuning rollouts and runs while they play."""

import gc
import weakref
from collections.abc import Callable

import anyio
import pytest

from rollouthub import Outcome, Rollout, Stop
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.in_flight import InFlight
from rollouthub.errors import LiveControlError, UnknownNameError, UsageError

from .conftest import Guest, Watch, until


async def test_one_cancelled_rollout_is_kept_as_cancelled_and_the_others_play_on(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest) as run, run.knock() as client:
        await until(lambda: guest.waiting == 3)
        victim = run.ids()[1]
        await client.cancel(victim)
        await until(lambda: victim not in run.live.attempts)
        guest.gate.set()
        await run.over.wait()
    records = run.records()
    assert [record.outcome for record in records[victim]] == [Outcome.CANCELLED]
    assert len(records[victim][0].turns) == 1
    assert [record.outcome for name, kept in records.items() if name != victim for record in kept] == [
        Outcome.SCORED,
        Outcome.SCORED,
    ]


async def test_a_cancelled_rollout_is_played_again_by_a_resumed_run(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest) as run, run.knock() as client:
        await until(lambda: guest.waiting == 3)
        victim = run.ids()[0]
        await client.cancel(victim)
    async with watch(Guest(is_open=True), resume=True) as run:
        await run.over.wait()
    assert [record.outcome for record in run.records()[victim]] == [Outcome.CANCELLED, Outcome.SCORED]


async def test_an_interrupted_rollout_is_scored_for_what_it_did(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest) as run, run.knock() as client:
        await until(lambda: guest.waiting == 3)
        victim = run.ids()[2]
        await client.interrupt(victim)
        await until(lambda: victim not in run.live.attempts)
        assert guest.waiting == 2
    (record,) = run.records()[victim]
    assert (record.outcome, record.stop, record.reward) == (Outcome.SCORED, Stop.INTERRUPTED, 1.0)
    assert [call.name for call in record.turns[0].tool_calls] == ["look"]


class InState:
    """Does something to every attempt that comes to a state."""

    def __init__(self, state: str, act: Callable[[Attempt], bool]) -> None:
        self._state, self._act = state, act
        self.said: list[bool] = []

    def began(self, attempt: InFlight) -> None:
        self.moved(attempt)

    def moved(self, attempt: InFlight) -> None:
        if attempt.state == self._state:
            assert isinstance(attempt, Attempt)
            self.said.append(self._act(attempt))

    def ended(self, attempt: InFlight, rollout: Rollout) -> None: ...


@pytest.mark.parametrize(
    ("state", "act", "is_possible", "outcome", "stop"),
    [
        ("setup", Attempt.interrupt, True, Outcome.SCORED, Stop.INTERRUPTED),
        ("setup", Attempt.cancel, True, Outcome.CANCELLED, Stop.CANCELLED),
        ("tool", Attempt.cancel, True, Outcome.CANCELLED, Stop.CANCELLED),
        ("verify", Attempt.interrupt, False, Outcome.SCORED, Stop.FINISHED),
        ("verify", Attempt.cancel, True, Outcome.CANCELLED, Stop.CANCELLED),
        ("close", Attempt.interrupt, False, Outcome.SCORED, Stop.FINISHED),
        ("close", Attempt.cancel, False, Outcome.SCORED, Stop.FINISHED),
    ],
)
async def test_what_can_be_ended_depends_on_how_far_it_is(
    watch: Watch, state: str, act: Callable[[Attempt], bool], is_possible: bool, outcome: Outcome, stop: Stop
) -> None:
    guest, ender = Guest(), InState(state, act)
    async with watch(guest, limit=2, concurrency=1) as run:
        await until(lambda: guest.waiting)
        run.live.watchers.append(ender)
        guest.gate.set()
        await run.over.wait()
    last = list(run.records().values())[-1]
    assert [(record.outcome, record.stop) for record in last] == [(outcome, stop)]
    assert set(ender.said) == {is_possible}


async def test_what_is_over_is_too_late_or_unknown(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest) as run, run.knock() as client:
        await until(lambda: guest.waiting == 3)
        one = run.ids()[0]
        with pytest.raises(UnknownNameError, match=f"did you mean '{one}'"):
            await client.cancel(one[:-3] + "9-0")
        attempt = run.live.attempts[one]
        assert isinstance(attempt, Attempt)
        attempt.state, attempt._phase = "close", "close"  # pyright: ignore[reportPrivateUsage]  # a moment too short
        with pytest.raises(LiveControlError, match="only closing"):
            await client.cancel(one)
        attempt._phase = "agent"  # pyright: ignore[reportPrivateUsage]


async def test_a_retuned_rollout_meets_its_new_limits_and_says_so(watch: Watch) -> None:
    guest = Guest(talks=True)
    async with watch(guest, limit=2, limits={"max_turns": 30, "max_tokens": 900}) as run, run.knock() as client:
        await until(lambda: guest.waiting == 2)
        retuned, plain = run.ids()
        await client.retune(retuned, {"max_turns": 5, "max_tokens": None})
        assert (await client.show(retuned)).limits.max_turns == 5
        assert (await client.show(retuned)).retuned
        assert not (await client.show(plain)).retuned
    (one,), (other,) = run.records()[retuned], run.records()[plain]
    assert (one.stop, len(one.turns)) == (Stop.TURN_LIMIT, 5)
    assert one.retuned is not None
    assert (one.retuned.max_turns, one.retuned.max_tokens) == (5, None)
    assert (other.stop, len(other.turns), other.retuned) == (Stop.TURN_LIMIT, 30, None)


async def test_a_new_time_limit_counts_from_when_the_agent_began(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        (name,) = run.ids()
        await client.retune(name, {"max_seconds": 0.001})
        await until(lambda: not run.live.attempts)
    (record,) = run.records()[name]
    assert (record.outcome, record.stop) == (Outcome.SCORED, Stop.TIME_LIMIT)


@pytest.mark.parametrize("limits", [{"max_turns": 0}, {"max_seconds": -1}, {"max_cost": "much"}, {"max_moves": 3}])
async def test_limits_that_do_not_hold_are_refused(watch: Watch, limits: dict[str, float | None]) -> None:
    guest = Guest()
    async with watch(guest, limit=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        with pytest.raises(UsageError, match=next(iter(limits))):
            await client.retune(run.ids()[0], limits)


async def test_concurrency_goes_up_at_once_and_down_as_rollouts_finish(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=40, concurrency=1) as run, run.knock() as client:
        await until(lambda: guest.waiting == 1)
        await client.resize(5)
        await until(lambda: guest.waiting == 5)
        await client.resize(2)
        ended = set(run.ids()[:4])
        for name in ended:
            await client.interrupt(name)
        await until(lambda: len(run.live.attempts) == 2 and not ended & set(run.live.attempts))
        listing = await client.list()
        assert (listing.run.in_flight, listing.run.concurrency) == (2, 2)
        await client.resize(1)
        await client.interrupt(run.ids()[0])
        await until(lambda: len(run.live.attempts) == 1)
    assert sum(map(len, run.records().values())) == 40


async def test_a_pool_without_work_takes_any_size(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=1, concurrency=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        await client.resize(50)
        guest.gate.set()
        await run.over.wait()
        run.live.resize(3)
    assert len(run.records()) == 1


async def test_an_interrupted_run_finishes_what_is_in_flight(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=50, concurrency=2) as run, run.knock() as client:
        await until(lambda: guest.waiting == 2)
        await client.interrupt(None)
        assert (await client.list()).run.status == "finishing"
    assert [kept[0].outcome for kept in run.records().values()] == [Outcome.SCORED] * 2


async def test_a_cancelled_run_keeps_its_attempts_as_cancelled_and_tells_followers(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=50, concurrency=2) as run, run.knock() as client, run.knock() as other:
        await until(lambda: guest.waiting == 2)
        heard: list[tuple[str, str | None]] = []

        async def listen() -> None:
            nonlocal heard
            events = [event async for event in other.events()]
            heard = [(event.kind, getattr(event, "outcome", getattr(event, "ending", None))) for event in events]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await until(lambda: run.live.watchers)
            await client.cancel(None)
    assert [kept[0].outcome for kept in run.records().values()] == [Outcome.CANCELLED] * 2
    assert heard == [("finished", "cancelled"), ("finished", "cancelled"), ("run_ended", "interrupted")]


async def test_an_attempt_that_is_over_leaves_no_garbage(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest) as run:
        await until(lambda: guest.waiting == 3)
        attempts = [weakref.ref(attempt) for attempt in run.live.attempts.values()]
        gc.disable()
        try:
            guest.gate.set()
            await run.over.wait()
            assert [attempt() for attempt in attempts] == [None] * 3
        finally:
            gc.enable()
