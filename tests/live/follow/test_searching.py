"""Transcripts are searched in a process of their own: what is found, what is refused, and what holds nobody up."""

import re
import sqlite3
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from mcp_types import CallToolResult, TextContent

from rollouthub import Message, Rollout, ToolCall, ToolRequest, Turn
from rollouthub.errors import RunDirectoryError, StoreError, UsageError
from rollouthub.live.follow import RunFeed
from rollouthub.live.follow import transcript_scan as scanning
from rollouthub.live.follow.transcript_search import Match, PatternError, compile_pattern, place_of, search_transcripts
from rollouthub.messages import Text
from rollouthub.store import open_writer
from tests.store.records import RESOLVED, conversation, record, write

CALL = ToolCall(
    id="c",
    name="look_up",
    arguments={"city": "Köln"},
    result=CallToolResult(content=[TextContent(text="rain\nall day")]),
    started=0.0,
    seconds=0.1,
    bytes=1,
)


def turn(index: int, said: str, **more: Any) -> Turn:
    return Turn(index=index, messages=(), response=Message(role="assistant", content=said), **more)


def everything() -> Rollout:
    """A record with a word in each of the places that are searched."""
    asked = Message(
        role="assistant",
        content=(Text(text="in parts"),),
        reasoning="I wonder",
        tool_requests=(ToolRequest(id="c", name="look_up", arguments='{"city": tru'),),
    )
    told = Message(role="user", content="The Question\x1b]0;owned\x07 is")
    return record("g0-0", turns=(Turn(index=0, messages=(told,), response=asked, tool_calls=(CALL,)), turn(1, "End.")))


async def found(directory: Path, pattern: str, after: int = 0) -> list[Match]:
    matches: list[Match] = []
    async with aclosing(search_transcripts(directory, compile_pattern(pattern), after=after)) as stretches:
        async for stretch in stretches:
            matches += stretch.matches
    return matches


async def test_everything_that_was_said_and_done_is_searched(tmp_path: Path) -> None:
    await write(tmp_path / "run", [everything(), record("g1-0", turns=(turn(0, "nothing"),))])
    wanted = {"the question": 0, "parts": 0, "wonder": 0, "tru$": 0, "Köln": 0, "^all": 0, "look_up": 0, r"end\.": 1}
    for pattern, index in wanted.items():
        assert [(match.row_id, match.turn) for match in await found(tmp_path / "run", pattern)] == [(1, index)], pattern
    assert await found(tmp_path / "run", "the Question") == []  # a capital asks for capitals
    (match,) = await found(tmp_path / "run", "question")
    assert match.excerpt == "The Question is"
    with RunFeed(tmp_path / "run") as feed:
        assert place_of(feed.columns, 1) is None
        feed.refresh()
        assert (place_of(feed.columns, 1), place_of(feed.columns, 3)) == (0, None)


async def test_a_run_that_goes_on_is_searched_on(tmp_path: Path) -> None:
    async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=False) as writer:
        for number in range(3):
            await writer.add(record(f"g{number}-0", turns=conversation(1)))
        await writer.flush()
        assert [match.row_id for match in await found(tmp_path / "run", "1 . 2")] == [1, 2, 3]
        await writer.add(record("g3-0", turns=conversation(1)))
        await writer.flush()
        assert [match.row_id for match in await found(tmp_path / "run", "1 . 2", after=3)] == [4]


@pytest.mark.parametrize(("text", "column"), [("a(b", 1), ("[z-a]", 1), ("*", 0), ("x" * 2000, 1000)])
def test_what_is_no_expression_says_where(text: str, column: int) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(text)
    assert caught.value.column == column, caught.value
    assert caught.value.problem


async def test_an_expression_that_takes_forever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = turn(0, "a" * 60 + "!")
    await write(tmp_path / "run", [record("g0-0", turns=(trap,)), record("g1-0", turns=(turn(0, "aab"),))])
    slow: list[int] = []
    matches: list[int] = []
    async for stretch in search_transcripts(tmp_path / "run", re.compile("(a+)+b"), patience=0.05):
        slow += stretch.slow
        matches += [match.row_id for match in stretch.matches]
    assert (slow, matches) == ([1], [2])
    monkeypatch.setattr("rollouthub.live.follow.transcript_search.MOST_SLOW", 1)
    with pytest.raises(UsageError, match="takes too long"):
        async for _ in search_transcripts(tmp_path / "run", re.compile("(a+)+b"), patience=0.05):
            pass


async def test_a_search_that_is_left_ends_its_process(tmp_path: Path) -> None:
    trap = turn(0, "a" * 60 + "!")
    await write(tmp_path / "run", [record(f"g{number}-0", turns=(trap,)) for number in range(4)])
    before = psutil.Process().children()  # other tests' of this process
    with anyio.move_on_after(0.3) as scope:  # in the middle of a match that would take forever
        await found(tmp_path / "run", "(a+)+b")
    assert scope.cancelled_caught
    assert set(psutil.Process().children()) <= set(before)


async def test_a_run_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError):
        await found(tmp_path / "none", "a")
    await write(tmp_path / "run", [record("g0-0")])
    answer = scanning.scan(str(tmp_path / "run" / "run.db"), re.compile("calc"), 0, 1.0)
    assert (answer["searched"], answer["done"]) == (1, True)
    (tmp_path / "run" / "run.db").write_bytes(b"no database" * 200)
    with pytest.raises((RunDirectoryError, StoreError)):
        await found(tmp_path / "run", "a")


@pytest.mark.parametrize("body", ["[" * 200_000, '{"index": 1e999, "response": {"content": "plain"}}', "\0", "7"])
async def test_a_turn_that_is_none_is_told_by_the_search(tmp_path: Path, body: str) -> None:
    await write(tmp_path / "run", [record("g0-0", turns=(turn(0, "plain"),))])
    with closing(sqlite3.connect(tmp_path / "run" / "run.db")) as connection, connection:
        connection.execute("UPDATE turns SET body = ?", (body,))
    with pytest.raises(StoreError, match="could not search the run"):
        await found(tmp_path / "run", "plain")
