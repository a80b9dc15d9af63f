"""The verdict: given once, on a sealed episode, a score or a typed fault, and never the agent's to read."""

from contextlib import suppress

import anyio
import pytest

from rollouthub import Deadlines, Score, Submission, VerifierError
from rollouthub.hosting.local.hosted_episode import CLOSED
from tests.hosting.local.worlds import CANARY, Workshop, call, opened, text_of, world_of

YES = Submission(answer="yes")


async def test_a_right_answer_is_scored_and_says_by_whom() -> None:
    async with opened(Workshop) as episode:
        score = await episode.verify(YES)
    assert score.reward == 1.0
    assert score.verifier is not None
    assert (score.verifier.name, score.verifier.version) == ("world", "0.1.0")


async def test_verifying_seals() -> None:
    async with opened(Workshop) as episode:
        await episode.verify(YES)
        assert episode.is_sealed
        assert text_of(await call(episode, "submit", answer="yes")) == CLOSED


async def test_calls_in_flight_have_come_to_rest_before_the_verifier_looks() -> None:
    async with opened(Workshop) as episode:
        world = world_of(episode, Workshop)
        async with anyio.create_task_group() as calls:
            calls.start_soon(call, episode, "wait")
            await world.is_waiting.wait()
            await episode.verify(YES)
            assert world.cleaned == 1


async def test_the_first_verdict_stands() -> None:
    async with opened(Workshop) as episode:
        journal = world_of(episode, Workshop).config.journal
        first = await episode.verify(YES)
        assert await episode.verify(Submission(answer="no")) is first
    assert journal.count("verify") == 1


async def test_the_verifier_runs_once_for_all_who_ask_at_once() -> None:
    async with opened(Workshop, verify="wait") as episode:
        world = world_of(episode, Workshop)
        scores: list[Score] = []

        async def ask() -> None:
            scores.append(await episode.verify(YES))

        async with anyio.create_task_group() as askers:
            for _ in range(3):
                askers.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            world.may_score.set()
        assert [score is scores[0] for score in scores] == [True] * 3
        assert world.config.journal.count("verify") == 1


async def test_one_who_stops_asking_does_not_spoil_it_for_the_next() -> None:
    async with opened(Workshop, verify="wait") as episode:
        async with anyio.create_task_group() as asker:
            asker.start_soon(episode.verify, YES)
            await anyio.wait_all_tasks_blocked()
            asker.cancel_scope.cancel()
        world_of(episode, Workshop).may_score.set()
        assert (await episode.verify(YES)).reward == 1.0


@pytest.mark.parametrize(
    ("verify", "told"),
    [
        ("none", "verify returned None: return a Score, a finite number, True or False"),
        ("nan", "finite"),
        ("hollow", "finite"),
        ("raise", f"raised KeyError: '{CANARY}'"),
        ("typed", "the judge is away"),
    ],
)
async def test_what_is_no_score_is_a_verifier_fault(verify: str, told: str) -> None:
    async with opened(Workshop, verify=verify) as episode:
        world = world_of(episode, Workshop)
        with pytest.raises(VerifierError, match=told) as first:
            await episode.verify(YES)
        with pytest.raises(VerifierError) as second:
            await episode.verify(YES)
        assert second.value is first.value
        assert world.config.journal.count("verify") == 1


@pytest.mark.parametrize(("verify", "reward", "passed"), [("number", 0.25, None), ("truth", 1.0, True)])
async def test_a_bare_number_or_truth_value_is_a_score(verify: str, reward: float, passed: bool | None) -> None:
    async with opened(Workshop, verify=verify) as episode:
        score = await episode.verify(YES)
    assert (score.reward, score.passed) == (reward, passed)


async def test_a_verifier_past_its_deadline_is_a_verifier_fault() -> None:
    async with opened(Workshop, verify="hang", deadlines=Deadlines(verify=0.05)) as episode:
        with pytest.raises(VerifierError, match=r"no score within 0\.05 s"):
            await episode.verify(YES)


async def test_the_verifiers_own_word_on_retrying_is_kept() -> None:
    async with opened(Workshop, verify="typed") as episode:
        with pytest.raises(VerifierError) as error:
            await episode.verify(YES)
    assert error.value.retryable is False


@pytest.mark.parametrize("verify", ["score", "raise"])
async def test_the_agent_reads_nothing_of_the_verdict(verify: str) -> None:
    async with opened(Workshop, verify=verify) as episode:
        seat = episode.seats["agent"]
        with suppress(VerifierError):
            await episode.verify(YES)
        told = {text_of(await seat.call_tool(tool.name, {})) for tool in seat.tools}
        assert told == {CLOSED}
        public = {name for name in dir(seat) if not name.startswith("_")}
        assert public == {"call_tool", "messages", "name", "reply", "task_tools", "token", "tools"}
        assert CANARY not in repr((seat.messages, seat.tools, seat.token))


async def test_a_closed_world_is_not_verified() -> None:
    async with opened(Workshop) as episode:
        await episode.close()
        with pytest.raises(VerifierError, match="closed before"):
            await episode.verify(YES)


async def test_a_verdict_outlives_the_world() -> None:
    async with opened(Workshop) as episode:
        score = await episode.verify(YES)
    assert await episode.verify(YES) is score
