"""Multi-turn conversations: the environment's user answers, directly or as a tool."""

import anyio
import pytest

from rollouthub import Deadlines, TaskError
from rollouthub.hosting.local.hosted_episode import BROKEN, CLOSED
from rollouthub.messages import assistant, user
from tests.hosting.local.worlds import CANARY, Interview, Workshop, call, opened, text_of, world_of


async def test_the_user_answers_until_the_conversation_is_over() -> None:
    async with opened(Interview) as episode:
        seat = episode.seats["agent"]
        assert await seat.reply([assistant("yes")]) == [user("Why?")]
        assert await seat.reply([assistant("because")]) == [user("Really?")]
        assert await seat.reply([assistant("really")]) is None


async def test_a_plain_client_meets_the_same_user_as_a_tool() -> None:
    async with opened(Interview) as episode:
        said = [text_of(await call(episode, "reply", text=text)) for text in ("yes", "because", "really")]
        assert said == ["Why?", "Really?", "The conversation is over."]
        assert world_of(episode, Interview).heard == ["yes", "because", "really"]


async def test_a_world_without_a_user_has_no_reply_and_no_such_tool() -> None:
    async with opened(Workshop) as episode:
        assert await episode.seats["agent"].reply([assistant("hello?")]) is None
        assert "reply" not in [tool.name for tool in episode.seats["agent"].tools]


async def test_a_user_that_fails_is_the_environments_fault() -> None:
    async with opened(Interview) as episode:
        with pytest.raises(TaskError, match=f"reply raised LookupError: {CANARY}"):
            await episode.seats["agent"].reply([assistant("crash")])


async def test_a_user_that_fails_as_a_tool_tells_the_agent_nothing() -> None:
    async with opened(Interview) as episode:
        assert text_of(await call(episode, "reply", text="crash")) == BROKEN
        assert [(fault.boundary, fault.type) for fault in episode.faults] == [("environment", "TaskError")]


async def test_a_user_past_the_deadline_is_the_environments_fault() -> None:
    async with opened(Interview, deadlines=Deadlines(tool_call=0.05)) as episode:
        with pytest.raises(TaskError, match=r"no reply within 0\.05 s"):
            await episode.seats["agent"].reply([assistant("hang")])
        assert text_of(await call(episode, "reply", text="hang")) == BROKEN


async def test_after_the_seal_there_is_nobody_to_talk_to() -> None:
    async with opened(Interview) as episode:
        await episode.seal()
        assert await episode.seats["agent"].reply([assistant("yes")]) is None
        assert text_of(await call(episode, "reply", text="yes")) == CLOSED
        assert world_of(episode, Interview).heard == []


async def test_the_seal_ends_a_reply_in_flight() -> None:
    async with opened(Interview) as episode:
        said: list[object] = []

        async def talk() -> None:
            said.append(await episode.seats["agent"].reply([assistant("hang")]))

        async def talk_by_tool() -> None:
            said.append(text_of(await call(episode, "reply", text="hang")))

        async with anyio.create_task_group() as agents:
            agents.start_soon(talk)
            agents.start_soon(talk_by_tool)
            await anyio.wait_all_tasks_blocked()
            await episode.seal()
        assert sorted(said, key=str) == sorted([None, CLOSED], key=str)
    assert episode.faults == []
