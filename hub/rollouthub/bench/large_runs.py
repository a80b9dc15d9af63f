"""Synthetic runs to measure with: many copies of a short real run's records, and very long rollouts."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult, TextContent

from rollouthub.messages import Message, ToolRequest
from rollouthub.rollout import AgentRef, EnvironmentRef, Outcome, Rollout, Stop, TaskRef, Timings, ToolCall, Turn, Usage
from rollouthub.score import Score
from rollouthub.store import open_writer
from rollouthub.store.sql_schema import SUMMARY_COLUMNS
from rollouthub.values import Float32s, Int32s

MARK = "first-words-of-it"
"""First words of the long rollouts, by which they are recognised on the screen."""
_SAMPLES = 8
_PER_SECOND = 200.0
_BEGAN = 1_790_000_000.0
_CHANGED = {
    "seq": "i + 1",
    "rollout_id": "printf('many-%06d-%d', i / :samples, i % :samples)",
    "group_id": "printf('many-%06d', i / :samples)",
    "task_id": "printf('many/%06d', i / :samples)",
    "sample": "i % :samples",
    "attempt": "0",
    "effective": "1",
    "started_at": ":began + i / :rate",
    "finished_at": ":began + i / :rate + seconds",
}
_NUMBERS = "WITH RECURSIVE numbers(i) AS (SELECT :known UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < :count) "


def multiply(directory: Path, count: int) -> None:
    """Extend an ended run to `count` rollouts with copies of its own, each as another sample."""
    columns = ", ".join(SUMMARY_COLUMNS)
    values = ", ".join(_CHANGED.get(name, name) for name in SUMMARY_COLUMNS)
    body = f"json_set(body, '$.rollout_id', {_CHANGED['rollout_id']}, '$.group_id', {_CHANGED['group_id']}, "
    body += f"'$.sample', i % :samples, '$.task.id', {_CHANGED['task_id']}, '$.started_at', {_CHANGED['started_at']})"
    with closing(sqlite3.connect(directory / "run.db")) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        known: int = connection.execute("SELECT max(id) FROM rollouts").fetchone()[0]
        named = {"known": known, "count": count, "samples": _SAMPLES, "began": _BEGAN, "rate": _PER_SECOND}
        connection.execute(
            f"{_NUMBERS}INSERT INTO rollouts (id, {columns}, body) SELECT i + 1, {values}, {body} "
            "FROM numbers JOIN rollouts AS known ON known.id = 1 + i % :known",
            named,
        )
        connection.execute(
            f"{_NUMBERS}INSERT INTO turns SELECT ((i + 1) << 20) | (turns.id & 1048575), body, prefix_turn, "
            "prefix_length, prompt_token_ids, output_token_ids, output_logprobs, output_mask, policy_versions "
            # A range of ids is found by the index; shifted ids would be read all, for each of the copies.
            "FROM numbers CROSS JOIN turns "
            "WHERE turns.id >= ((1 + i % :known) << 20) AND turns.id < ((2 + i % :known) << 20)",
            named,
        )
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('planned', ?)", (str(count),))


async def write_long(directory: Path, turns: Sequence[Turn]) -> None:
    """Write a run with one rollout that has these turns."""
    rollout = Rollout(
        run_id="long",
        rollout_id="long-0",
        group_id="long",
        environment=EnvironmentRef(name="long", version="1", digest="sha256:0"),
        task=TaskRef(split="test", id="long", digest="sha256:0"),
        agent=AgentRef(name="tool_loop", version="1"),
        outcome=Outcome.SCORED,
        stop=Stop.FINISHED,
        score=Score(reward=1.0, passed=True),
        turns=tuple(turns),
        timings=Timings(total=float(len(turns))),
        started_at=_BEGAN,
    )
    async with open_writer(directory, resolved={"request": {}}, given="", resume=False) as writer:
        await writer.add(rollout)


def wordy_turns(characters: int) -> Iterator[Turn]:
    """Forty turns with this many characters in all: prose, code, tables, lists, logs, and a very long line."""
    share = characters // 40
    paragraph = "The **quick** brown fox `jumps` over the *lazy* dog, and writes it down:\n\n"
    code = "```python\nfor number in range(10):\n    print(number, 'is', 'even' if number % 2 == 0 else 'odd')\n```\n\n"
    table = "| step | seconds |\n| --- | --- |\n| setup | 1.25 |\n| verify | 0.31 |\n\n"
    prose = (paragraph + code + table + "1. first\n2. second\n   - and more\n\n") * (share // 2 // 300 + 1)
    log = "".join(
        f"2026-09-21 13:33:{line % 60:02} INFO step {line} done in {line * 7 % 13} ms\n" for line in range(9999)
    )
    for index in range(40):
        result = "x" * (share // 2) if index == 20 else log[: share // 2]
        yield _turn(index, prose[: share // 2], result)


def sampled_turns(tokens: int) -> Iterator[Turn]:
    """Ten turns of prose with this many sampled tokens in all, each with its probability."""
    share = tokens // 10
    words = [f"word{place % 97} " if (place + 1) % 60 else "end.\n\n" for place in range(share)]
    ends = list(accumulate(map(len, words)))
    logprobs = [-(place % 23) / 8 for place in range(share)]
    for index in range(10):
        yield _turn(index, "".join(words), "go on").model_copy(
            update={
                "output_token_ids": Int32s(range(share)),
                "output_logprobs": Float32s(logprobs),
                "output_text_ends": Int32s(ends),
                "policy_version": 1,
            }
        )


def short_turns(count: int) -> Iterator[Turn]:
    """This many turns of a few words each."""
    for index in range(count):
        yield _turn(index, f"Step {index}: look, then **go on**.", f"room {index}: a door to the north")


def _turn(index: int, said: str, result: str) -> Turn:
    call = ToolCall(
        id=f"call{index}",
        name="look",
        arguments={"place": index},
        result=CallToolResult(content=[TextContent(text=result)]),
        started=float(index),
        seconds=0.25,
        bytes=len(result),
    )
    request = ToolRequest(id=call.id, name="look", arguments=json.dumps(call.arguments))
    fields: dict[str, Any] = {"messages": (Message(role="user", content=MARK),)} if index == 0 else {"messages": ()}
    return Turn(
        index=index,
        parent_turn=index - 1 if index else None,
        response=Message(role="assistant", content=said, tool_requests=(request,)),
        tool_calls=(call,),
        usage=Usage(prompt_tokens=100, output_tokens=20),
        started=float(index),
        seconds=0.5,
        **fields,
    )
