"""What an agent says to tasks of Inspect: words that break, end or never leave their code, and places of files."""

from pathlib import Path
from typing import Any

import pytest

from rollouthub import Deadlines, Stop, Submission
from rollouthub.errors import SandboxOverrun, TaskError, VerifierError
from rollouthub.messages import Message, Text, assistant, user
from rollouthub_servers.inspect import Inspect, InspectConfig

from .shaped_host import (
    CANARY,
    LIBRARY,
    hosted,
    opened,
    said_once,
    scored,
    text_of,
)


@pytest.mark.parametrize("words", ["hang", "die", "fail"])
async def test_words_that_end_break_or_never_leave_the_solver_are_the_agents(folder: Path, words: str) -> None:
    async with hosted(folder, "talk") as host:
        async with opened(host) as episode, opened(host) as other:
            with pytest.raises(SandboxOverrun):
                await episode.seats["agent"].reply([assistant(words)])
            score = await episode.conclude(Submission(stop=Stop.FINISHED))
            assert score is not None and score.reward == 0.0
            assert {fault.boundary for fault in episode.faults} == {"agent"}
            assert await other.seats["agent"].reply([assistant("?")]) is not None
        assert (await said_once(host, "2")).reward == 1.0


async def test_words_at_which_code_hangs_are_the_agents_even_if_the_hubs_own_deadline_is_as_short(folder: Path) -> None:
    short = Deadlines(tool_call=1.0, verify=1.0)
    async with hosted(folder, "talk") as host, opened(host, deadlines=short) as episode:
        with pytest.raises(SandboxOverrun):
            await episode.seats["agent"].reply([assistant("hang")])
    async with hosted(folder, "picky") as host, opened(host, deadlines=short) as episode:
        await episode.seats["agent"].reply([assistant("hang 1")])
        score = await episode.conclude(Submission(transcript=(*episode.seats["agent"].messages, assistant("hang 1"))))
        assert score is not None and score.reward == 0.0
        assert {fault.boundary for fault in episode.faults} == {"agent"}


def test_the_hub_waits_longer_than_the_environment_does() -> None:
    config = InspectConfig(data="x")
    needed = Inspect.deadlines(config)
    assert needed.tool_call * 0.9 > config.call_seconds
    assert needed.verify * 0.5 > config.verify_seconds
    assert needed.setup > config.begin_seconds


async def test_half_a_surrogate_pair_is_a_question_mark_in_words_and_arguments(folder: Path) -> None:
    async with hosted(folder, "talk") as host, opened(host) as episode:
        assert await episode.seats["agent"].reply([assistant("echo \ud800!")]) == [user("echo ?!")]
        await episode.seats["agent"].reply([assistant("2 \udfff")])
        assert (await scored(episode, assistant("echo \ud800!"), assistant("2 \udfff"))).reward == 1.0
    async with hosted(folder, "tools") as host, opened(host) as episode:
        assert text_of(await episode.seats["agent"].call_tool("note", {"x": "\ud800"})) == "noted 1"


async def test_arguments_that_are_nested_too_deeply_are_the_agents(folder: Path) -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    async with hosted(folder, "tools") as host, opened(host) as episode:
        assert "nested too deeply" in text_of(await episode.seats["agent"].call_tool("note", {"x": deep}))
        assert not episode.faults
        assert text_of(await episode.seats["agent"].call_tool("note", {"x": 1})) == "noted 1"


async def test_a_picture_whose_place_the_agent_chose_is_no_other_file(folder: Path) -> None:
    place = LIBRARY / "shaped_tasks.py"
    async with hosted(folder, "talk") as host, opened(host) as episode:
        for path in (str(place), "/proc/self/environ", "/proc/self/cmdline", "missing.png", "/dev/zero"):
            told = await episode.seats["agent"].reply([assistant(f"show {path}")])
            assert told == [Message(role="user", content=(Text(text="[image]"),))]


async def test_an_answer_that_a_scorer_cannot_read_is_the_agents_even_if_it_is_empty(folder: Path) -> None:
    async with hosted(folder, "last_word") as host:
        for words in ("", " \n"):
            async with opened(host) as episode:
                await episode.seats["agent"].reply([assistant(words)])
                transcript = (*episode.seats["agent"].messages, assistant(words))
                score = await episode.conclude(Submission(transcript=transcript))
                assert score is not None and score.reward == 0.0
                assert {fault.boundary for fault in episode.faults} == {"agent"}
        assert (await said_once(host, "It is 2")).reward == 1.0


async def test_who_leaves_a_solver_that_asks_again_whatever_comes_is_scored(folder: Path) -> None:
    async with hosted(folder, "stubborn") as host, opened(host) as episode:
        await episode.seats["agent"].reply([assistant("two")])
        assert (await scored(episode, assistant("two"))).reward == 0.0


async def test_a_network_that_a_scorer_cannot_reach_is_no_zero(folder: Path) -> None:
    async with hosted(folder, "picky") as host:
        with pytest.raises(VerifierError, match="no such host"):
            await said_once(host, "unreached 1")


@pytest.mark.parametrize("words", ["break 1", "hang 1", "late 1", "pipe 1"])
async def test_words_at_which_a_scorer_fails_are_the_agents(folder: Path, words: str) -> None:
    async with hosted(folder, "picky") as host, opened(host) as episode:
        await episode.seats["agent"].reply([assistant(words)])
        submission = Submission(transcript=(*episode.seats["agent"].messages, assistant(words)))
        score = await episode.conclude(submission)
        assert score is not None and score.reward == 0.0
        assert {fault.boundary for fault in episode.faults} == {"agent"}


async def test_a_scorer_that_fails_whatever_was_said_is_the_verifiers_fault(folder: Path) -> None:
    async with hosted(folder, "never") as host:
        with pytest.raises(VerifierError, match="always"):
            await said_once(host, "2")


async def test_a_solver_that_fails_whatever_is_said_is_a_fault(folder: Path) -> None:
    async with hosted(folder, "fails") as host, opened(host) as episode:
        with pytest.raises(TaskError, match="always"):
            await episode.seats["agent"].reply([assistant("2")])


async def test_a_scorer_that_asks_a_model_is_unscored_even_if_it_hides_that_and_the_agent_is_not_asked(
    folder: Path,
) -> None:
    async with hosted(folder, "judged") as host:
        with pytest.raises(VerifierError, match="a scorer asks a model"):
            await said_once(host, "2")


async def test_a_conversation_that_is_not_the_agents_is_not_shown_to_it(folder: Path) -> None:
    async with hosted(folder, "talk") as host, opened(host) as episode:
        with pytest.raises(TaskError, match="a conversation of its own") as caught:
            await episode.seats["agent"].reply([assistant("elsewhere")])
        assert CANARY not in str(caught.value)


async def test_a_driver_that_is_killed_is_a_fault_and_the_next_episode_has_another(folder: Path) -> None:
    async with hosted(folder, "talk") as host:
        async with opened(host) as episode:
            with pytest.raises(TaskError, match="signal 9"):
                await episode.seats["agent"].reply([assistant("kill")])
            assert not episode.faults or {fault.boundary for fault in episode.faults} != {"agent"}
        assert (await said_once(host, "2")).reward == 1.0
