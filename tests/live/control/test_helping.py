"""Pausing a run, saying something to an agent, and playing a sample again, through the door."""

from collections.abc import Callable

import anyio
import pytest

from rollouthub import AgentError, Message, ModelError, Outcome, Seat, Stop
from rollouthub.errors import LiveControlError, UnknownNameError, UsageError
from rollouthub.live.control.live_protocol import LONGEST_REQUEST
from rollouthub.store import open_run

from .conftest import Guest, Watch, until

CANNOT_WAIT = "mock/say?text=hello&latency=60"
RUDE = "\x1b]0;mine\x07 [bold]1 < 2[/bold] \u202e\u2028 ünï 🙂"


class Talker(Guest):
    """Asks its model once it is let through."""

    waiting: int

    async def play(self, seat: Seat) -> Stop:
        """Wait, ask."""
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        await seat.generate([*seat.messages, Message(role="user", content="say hello")])
        return Stop.FINISHED


class Failing(Guest):
    """Fails as often as it is told."""

    def __init__(
        self, failures: int, error: Callable[[], Exception] = lambda: ModelError("not today", retryable=False)
    ) -> None:
        super().__init__()
        self.failures, self._error = failures, error

    async def play(self, seat: Seat) -> Stop:
        """Wait, fail or look."""
        if self.failures:
            self.failures -= 1
            raise self._error()
        return await super().play(seat)


async def test_a_paused_run_starts_nothing_until_it_is_resumed_and_then_has_every_record(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=6, concurrency=2) as run, run.knock() as client:
        await until(lambda: guest.waiting == 2)
        assert "starts nothing new" in (await client.pause()).message
        assert (await client.list()).run.status == "paused"
        await client.pause()
        guest.gate.set()
        await until(lambda: not run.live.attempts)
        listing = await client.list()
        assert (listing.run.status, listing.run.in_flight, run.over.is_set()) == ("paused", 0, False)
        assert "goes on" in (await client.resume()).message
        await run.over.wait()
    assert [kept[0].outcome for kept in run.records().values()] == [Outcome.SCORED] * 6


@pytest.mark.parametrize("way", ["interrupt", "cancel"])
async def test_a_paused_run_can_be_ended(watch: Watch, way: str) -> None:
    guest = Guest()
    async with watch(guest, limit=6, concurrency=2) as run, run.knock() as client:
        await until(lambda: guest.waiting == 2)
        await client.pause()
        await (client.interrupt(None) if way == "interrupt" else client.cancel(None))
        if way == "interrupt":
            assert (await client.list()).run.status == "finishing"
            with pytest.raises(LiveControlError, match="the run is finishing, and starts nothing new as it is"):
                await client.resume()
    assert len(run.records()) == 2
    with open_run(run.directory) as reader:
        assert reader.info.status == "interrupted"


async def test_a_time_limit_ends_a_paused_run(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=1000, concurrency=1, run_limits={"max_seconds": 2}) as run, run.knock() as client:
        await client.pause()
        guest.gate.set()
        await until(lambda: not run.live.attempts)
        with anyio.fail_after(20):
            await run.over.wait()
    assert run.stop.reason is not None


async def test_a_person_speaks_to_one_agent_and_nobody_else_hears_it(watch: Watch) -> None:
    guest = Talker()
    async with watch(guest, limit=3, model=CANNOT_WAIT) as run, run.knock() as client:
        await until(lambda: guest.waiting == 3)
        told, *others = run.ids()
        guest.gate.set()
        await until(lambda: all(attempt.state == "model" for attempt in run.live.attempts.values()))
        done = await client.tell(told, RUDE)
        assert "its record will say so" in done.message
        assert RUDE not in done.message
        for name in run.ids():
            await client.interrupt(name)
    records = {name: kept[0] for name, kept in run.records().items()}
    assert [(said.seat, said.text) for said in records[told].told] == [("agent", RUDE)]
    assert not records[told].trainable
    for name in others:
        assert records[name].told == ()
        assert "mine" not in records[name].model_dump_json()


async def test_what_is_said_reaches_the_model_exactly(watch: Watch) -> None:
    guest = Talker()
    async with watch(guest, limit=1, model="mock/say?text=hello") as run, run.knock() as client:
        await until(lambda: guest.waiting)
        (name,) = run.ids()
        await client.tell(name, RUDE)
        guest.gate.set()
        await run.over.wait()
    (record,) = run.records()[name]
    assert [message.text for message in record.turns[0].messages][-2:] == ["say hello", RUDE]
    assert record.turns[0].messages[-1].role == "user"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "at least 1 character"),
        ("x" * 20_001, "at most 20000 characters"),
        ("half \ud83d", "text|JSON|unicode"),
        ("ü" * LONGEST_REQUEST, "at most"),
    ],
)
async def test_what_cannot_be_said_is_refused(watch: Watch, text: str, problem: str) -> None:
    guest = Talker()
    async with watch(guest, limit=1, model="mock/say?text=hello") as run, run.knock() as client:
        await until(lambda: guest.waiting)
        with pytest.raises(UsageError, match=problem):
            await client.tell(run.ids()[0], text)
    assert next(iter(run.records().values()))[0].told == ()


async def test_the_longest_text_in_any_script_goes_through(watch: Watch) -> None:
    guest = Talker()
    async with watch(guest, limit=1, model="mock/say?text=hello") as run, run.knock() as client:
        await until(lambda: guest.waiting)
        await client.tell(run.ids()[0], "語" * 20_000)
    assert next(iter(run.records().values()))[0].told[0].text == "語" * 20_000


async def test_who_asks_no_model_is_told_nothing(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        (name,) = run.ids()
        with pytest.raises(
            LiveControlError, match=f"nothing can be said in {name}: agent guest asks no model of this run"
        ):
            await client.tell(name, "hello")
        with pytest.raises(UnknownNameError):
            await client.tell("nobody", "hello")


async def test_what_ended_without_a_result_is_played_again_and_the_new_attempt_counts(watch: Watch) -> None:
    guest = Failing(1)
    async with watch(guest, limit=2, concurrency=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        (playing,) = run.ids()
        (failed,) = run.live.undecided
        with pytest.raises(LiveControlError, match=f"{playing} is in flight.*cancel it first"):
            await client.retry(playing)
        assert (await client.retry(failed[:12])).message.startswith(f"{failed} is played again")
        with pytest.raises(LiveControlError, match="waits to be played as it is"):
            await client.retry(failed)
        guest.gate.set()
        await run.over.wait()
    assert [kept.outcome for kept in run.records()[failed]] == [Outcome.MODEL_FAILED, Outcome.SCORED]
    with open_run(run.directory) as reader:
        assert [summary.effective for summary in reader.attempts(failed)] == [False, True]
        assert (reader.info.planned, reader.outcomes()) == (2, {Outcome.SCORED: 2})


async def test_a_cancelled_rollout_is_played_again_by_the_same_run(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=2, concurrency=2) as run, run.knock() as client:
        await until(lambda: guest.waiting == 2)
        victim = run.ids()[0]
        await client.cancel(victim)
        await until(lambda: victim in run.live.undecided)
        await client.retry(victim)
        await until(lambda: guest.waiting == 2)
        guest.gate.set()
        await run.over.wait()
    assert [(kept.attempt, kept.outcome) for kept in run.records()[victim]] == [
        (0, Outcome.CANCELLED),
        (1, Outcome.SCORED),
    ]


async def test_a_score_is_not_played_again(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=2, concurrency=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        (first,) = run.ids()
        await client.interrupt(first)
        await until(lambda: first not in run.live.attempts and guest.waiting)
        with open_run(run.directory) as reader:
            await until(lambda: any(row.rollout_id == first for row in reader.summaries()))
        with pytest.raises(
            LiveControlError, match=f"{first} ended with a score.*choose among results; start a new run"
        ):
            await client.retry(first)
    assert len(run.records()[first]) == 1


async def test_an_unknown_sample_is_answered_with_those_that_could_be_meant(watch: Watch) -> None:
    guest = Failing(1)
    async with watch(guest, limit=2, concurrency=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        (failed,) = run.live.undecided
        with pytest.raises(UnknownNameError, match=f"no rollout without a result is named .*did you mean '{failed}'"):
            await client.retry(failed[:-3] + "9-0")


async def test_nothing_is_played_again_by_a_run_that_is_finishing(watch: Watch) -> None:
    guest = Failing(1)
    async with watch(guest, limit=2, concurrency=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        await client.interrupt(None)
        with pytest.raises(LiveControlError, match="the run starts nothing new; `hub run --resume`"):
            await client.retry(run.live.undecided[0])


async def test_a_failure_of_the_agent_is_a_result_and_not_played_again(watch: Watch) -> None:
    async with watch(Failing(1, lambda: AgentError("not today")), limit=1) as run:
        await run.over.wait()
    (failed,) = run.records()
    guest = Guest()
    async with watch(guest, limit=2, concurrency=1, resume=True) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        with pytest.raises(LiveControlError, match=f"{failed} ended with its agent's failure.*choose among results"):
            await client.retry(failed)
