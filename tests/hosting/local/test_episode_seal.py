"""The seal: the agent's time is over at once, for good, and what it started has come to rest."""

import anyio
import pytest

from rollouthub import Deadlines, Submission
from rollouthub.hosting.local.hosted_episode import CLOSED
from tests.hosting.local.worlds import CANARY, Market, Workshop, call, opened, text_of, world_of


async def test_submit_keeps_the_answer_and_seals() -> None:
    async with opened(Workshop) as episode:
        assert text_of(await call(episode, "submit", answer="yes")) == "Submitted."
        assert (episode.answer, episode.is_sealed) == ("yes", True)


async def test_a_bad_submission_does_not_seal() -> None:
    async with opened(Workshop) as episode:
        assert (await call(episode, "submit", answer=42)).is_error
        assert (await call(episode, "submit")).is_error
        assert (episode.answer, episode.is_sealed) == (None, False)


async def test_every_call_after_the_end_meets_one_fixed_error() -> None:
    async with opened(Workshop) as episode:
        await call(episode, "submit", answer="yes")
        late = [
            await call(episode, "submit", answer="no, wait"),
            await call(episode, "submit", wrong=1),
            await call(episode, "note", text="x"),
            await call(episode, "get_task"),
            await call(episode, "crash"),
            await call(episode, "no such tool"),
        ]
        assert {(text_of(result), result.is_error) for result in late} == {(CLOSED, True)}
        assert episode.answer == "yes"
        assert world_of(episode, Workshop).notes == []
    assert episode.faults == []


async def test_of_two_submissions_at_once_the_first_wins() -> None:
    async with opened(Market) as episode:
        told: list[str] = []

        async def submit(seat: str, answer: str) -> None:
            told.append(text_of(await call(episode, "submit", seat, answer=answer)))

        async with anyio.create_task_group() as seats:
            seats.start_soon(submit, "buyer", "first")
            seats.start_soon(submit, "seller", "second")
        assert told == ["Submitted.", CLOSED]
        assert episode.answer == "first"


async def test_a_seal_from_outside_comes_before_a_later_submission() -> None:
    async with opened(Workshop) as episode:
        await episode.seal()
        assert text_of(await call(episode, "submit", answer="yes")) == CLOSED
        assert episode.answer is None


async def test_sealing_again_changes_nothing() -> None:
    async with opened(Workshop) as episode:
        await call(episode, "submit", answer="yes")
        await episode.seal()
        await episode.seal()
        assert episode.answer == "yes"


async def test_calls_in_flight_are_cancelled_and_cleaned_up_before_the_seal_is_back() -> None:
    async with opened(Workshop) as episode:
        world = world_of(episode, Workshop)
        told: list[str] = []

        async def work() -> None:
            told.append(text_of(await call(episode, "wait")))

        async with anyio.create_task_group() as calls:
            for _ in range(3):
                calls.start_soon(work)
            await anyio.wait_all_tasks_blocked()
            assert text_of(await call(episode, "submit", answer="yes")) == "Submitted."
            assert world.cleaned == 3
        assert told == [CLOSED] * 3
    assert episode.faults == []


async def test_whoever_seals_waits_for_the_clean_up() -> None:
    async with opened(Workshop) as episode:
        world = world_of(episode, Workshop)
        world.may_clean = anyio.Event()
        seen: list[int] = []

        async def seal() -> None:
            await episode.seal()
            seen.append(world.cleaned)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, episode, "wait")
            await world.is_waiting.wait()
            tasks.start_soon(seal)
            tasks.start_soon(seal)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            world.may_clean.set()
        assert seen == [1, 1]


@pytest.mark.parametrize("name", ["mutter", "explode"])
async def test_what_a_call_comes_to_after_the_seal_is_not_shown(name: str) -> None:
    async with opened(Workshop) as episode:
        told: list[str] = []

        async def work() -> None:
            told.append(text_of(await call(episode, name)))

        async with anyio.create_task_group() as calls:
            calls.start_soon(work)
            await world_of(episode, Workshop).is_waiting.wait()
            await episode.seal()
        assert told == [CLOSED]
    assert [CANARY in fault.message for fault in episode.faults] == [True] * (name == "explode")


async def test_a_call_that_ignores_the_seal_is_waited_for_once_and_is_a_fault() -> None:
    async with opened(Workshop, deadlines=Deadlines(close=0.05)) as episode:
        world = world_of(episode, Workshop)
        async with anyio.create_task_group() as calls:
            calls.start_soon(call, episode, "ignore")
            await world.is_waiting.wait()
            await episode.seal()
            await episode.seal()
            assert (await episode.verify(Submission(answer="yes"))).reward == 1.0
            world.may_finish.set()
    (fault,) = episode.faults
    assert "ignored its cancellation" in fault.message


async def test_a_cancelled_sealer_leaves_a_sealed_and_quiet_episode() -> None:
    async with opened(Workshop) as episode:
        world = world_of(episode, Workshop)
        world.may_clean = anyio.Event()
        async with anyio.create_task_group() as calls:
            calls.start_soon(call, episode, "wait")
            await world.is_waiting.wait()
            async with anyio.create_task_group() as sealer:
                sealer.start_soon(call, episode, "submit")
                sealer.start_soon(episode.seal)
                await anyio.wait_all_tasks_blocked()
                sealer.cancel_scope.cancel()
                world.may_clean.set()
            assert (episode.is_sealed, world.cleaned) == (True, 1)
