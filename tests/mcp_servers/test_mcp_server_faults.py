"""Foreign servers that break, each in its own way: typed, bounded, and over with the episode."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Submission
from rollouthub.hosting.local.hosted_episode import BROKEN, CLOSED
from tests.mcp_servers.foreign import CANARY, call, hosted, make, opened, text

QUICK: dict[str, Any] = {"call_seconds": 2, "stop_seconds": 0}


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("crash", "the server ended with exit code 3; its stderr ends: notes server is up\nthe disk is on fire"),
        ("hang", "the server did not answer 'hang' within 2 s, nor anything else since"),
        ("garbage", "wrote something to stdout that is no JSON-RPC message: 'I feel unwell today'"),
        ("endless", "the server sent a message of more than 16,777,216 bytes"),
        ("chatter", "the server sent more than 16,777,216 bytes without answering anything"),
        ("break", "the server answered with error -32603: not like this"),
        ("odd", "the server's answer is not what MCP says"),
        ("deaf", "the server closed its stdin"),
    ],
)
async def test_a_broken_server_is_the_environments_fault_and_the_next_is_whole(
    tmp_path: Path, tool: str, said: str
) -> None:
    server = QUICK | {"call_seconds": 2 if tool in ("hang", "deaf") else 60}
    async with hosted(make(tmp_path / "notes", server=server)) as host:
        with anyio.fail_after(60):
            async with opened(host) as episode:
                result = await call(episode, tool)
                assert (result.is_error, text(result)) == (True, BROKEN)
                await episode.verify(Submission())
        assert [fault.boundary for fault in episode.faults] == ["environment"]
        assert said in episode.faults[0].message
        async with opened(host) as episode:
            assert text(await call(episode, "notes_write", path="note.txt", text=CANARY)) == "written"
            assert (await episode.verify(Submission())).reward == 1.0
        assert episode.faults == []


async def test_a_slow_call_of_a_living_server_is_the_agents_to_hear_of(tmp_path: Path) -> None:
    async with hosted(make(tmp_path / "notes", server=QUICK)) as host, opened(host) as episode:
        result = await call(episode, "doze")
        assert text(result) == "doze was stopped after 2 seconds without an answer."
        assert not (await call(episode, "notes_write", path="note.txt", text="x")).is_error
    assert episode.faults == []


async def test_a_call_in_flight_at_the_seal_holds_up_nothing(tmp_path: Path) -> None:
    async with hosted(make(tmp_path / "notes", server={"stop_seconds": 0})) as host, opened(host) as episode:
        results: list[str] = []

        async def hang() -> None:
            results.append(text(await call(episode, "hang")))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(hang)
                await anyio.wait_all_tasks_blocked()
                await episode.seal()
            assert (await episode.verify(Submission())).reward == 0.0
        assert results == [CLOSED]
    assert episode.faults == []


async def test_a_crash_between_calls_is_found_at_the_seal(tmp_path: Path) -> None:
    async with hosted(make(tmp_path / "notes")) as host, opened(host) as episode:
        pid = json.loads(text(await call(episode, "look")))["pid"]
        os.kill(pid, signal.SIGKILL)
        await episode.verify(Submission())
    assert [fault.message.partition(";")[0] for fault in episode.faults] == [
        "TaskError: the server ended with exit code -9"
    ]


async def test_a_tool_list_that_grows_and_says_so_fails_the_next_call(tmp_path: Path) -> None:
    async with hosted(make(tmp_path / "notes")) as host, opened(host) as episode:
        await call(episode, "grow")
        assert text(await call(episode, "notes_write", path="a", text="b")) == BROKEN
        assert "unknown tool" in text(await call(episode, "extra"))
        await episode.seal()
    assert len(episode.faults) == 1
    assert episode.faults[0].message.endswith("the server's tools are not those of the start of the run: added 'extra'")
    assert not episode.faults[0].retryable


async def test_a_tool_list_that_grows_in_secret_is_found_at_the_seal(tmp_path: Path) -> None:
    async with hosted(make(tmp_path / "notes")) as host, opened(host) as episode:
        await call(episode, "grow_quietly")
        assert not (await call(episode, "notes_write", path="a", text="b")).is_error
        await episode.verify(Submission())
    assert [fault.message[-13:] for fault in episode.faults] == ["added 'extra'"]


async def test_a_loud_server_is_heard_to_the_end(tmp_path: Path) -> None:
    async with hosted(make(tmp_path / "notes")) as host, opened(host) as episode:
        assert text(await call(episode, "shout")) == "hoarse"
    assert episode.faults == []
