"""Rollouts by what they have in common: counted as the run's other figures are, and each turn read once."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Outcome, Rollout, Score, ToolCall, Turn
from rollouthub.analysis import breakdowns
from rollouthub.analysis.breakdowns import REST, BreakdownLine, Breakdowns, RowsCopy
from rollouthub.live.follow import RunFeed
from rollouthub.live.follow.task_summary import TaskSummary
from rollouthub.rollout import Fault
from rollouthub.store.notes import NoteChange, add
from tests.store.records import conversation, record, write


def broken(sample: str, message: str, attempt: int = 0) -> Rollout:
    fault = Fault(boundary="model", phase="agent", type="ModelError", message=message, status=429)
    return record(sample, attempt, Outcome.MODEL_FAILED, faults=(fault,), turns=())


def calling(sample: str, *names: str, reward: float, finish: str = "stop", wrong: int = 0) -> Rollout:
    """A rollout of one turn that calls these tools, of which the first so many give an error."""
    (turn,) = conversation(1)
    (call, *_) = turn.tool_calls or conversation(2)[1].tool_calls or conversation(2)[0].tool_calls
    calls = tuple(_call(call, name, number < wrong) for number, name in enumerate(names))
    turns: tuple[Turn, ...] = (turn.model_copy(update={"tool_calls": calls, "finish_reason": finish}),)
    return record(sample, turns=turns, score=Score(reward=reward, passed=reward > 0.5))


def _call(call: ToolCall, name: str, is_error: bool) -> ToolCall:
    result = call.result.model_copy(update={"is_error": is_error})
    return call.model_copy(update={"name": name, "result": result})


def read(directory: Path) -> dict[Any, dict[str, BreakdownLine]]:
    with RunFeed(directory) as feed:
        feed.refresh()
        reader = Breakdowns(directory)
        while reader.read_up_to < feed.columns.ids[-1]:
            reader.read_more(feed.columns.ids[-1])
        lines = reader.lines(RowsCopy.of(feed.columns, feed.notes))
        reader.close()
    return {kind: {line.name: line for line in found} for kind, found in lines.items()}


async def test_rollouts_are_counted_by_tool_finish_reason_stop_and_tag(tmp_path: Path) -> None:
    made = [
        calling("a-0", "search", "search", "read", reward=1.0, wrong=1),
        calling("a-1", "search", reward=0.0, finish="length"),
        calling("b-0", "read", reward=0.5),
        broken("b-1", "slow down"),
    ]
    await write(tmp_path / "run", made)
    add(tmp_path / "run", NoteChange("b-0", 0, tags=("odd",)), NoteChange("b-1", 0, tags=("odd",)), by="anna")
    found = read(tmp_path / "run")
    search, odd = found["tools"]["search"], found["tags"]["odd"]
    assert (search.times, search.errors, search.rollouts, search.scored) == (3, 1, 2, 2)
    assert (search.mean_reward, search.pass_rate, list(search.places)) == (0.5, 0.5, [0, 1])
    assert list(found["tools"]) == ["read", "search"] or list(found["tools"]) == ["search", "read"]
    assert found["finishes"]["length"].rollouts == 1 and found["finishes"]["length"].mean_reward == 0.0
    assert (odd.rollouts, odd.scored, odd.errors, odd.mean_reward) == (2, 1, 1, 0.5)
    assert {name: line.rollouts for name, line in found["stops"].items()} == {"finished": 3, "failed": 1}


async def test_means_and_intervals_are_those_of_the_whole_run(tmp_path: Path) -> None:
    await write(tmp_path / "run", [calling(f"g{task}-0", "go", reward=float(task % 3 == 0)) for task in range(9)])
    line = read(tmp_path / "run")["tools"]["go"]
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        summary = TaskSummary(100, 100).of(feed)
        assert summary is not None
        assert line.mean_reward == summary.mean_reward
        assert line.interval is not None and line.interval.low is not None
        assert line.interval == summary.mean_estimate


async def test_faults_of_one_cause_are_one_line_with_an_example(tmp_path: Path) -> None:
    made = [
        broken("a-0", "no answer from 10.0.0.7 within 30 s"),
        broken("b-0", "no answer from 10.0.0.9 within 61 s"),
        broken("c-0", "the key is refused"),
        record("a-0", 1),
    ]
    await write(tmp_path / "run", made)
    found = read(tmp_path / "run")["faults"]
    assert len(found) == 2
    (name, line), (_, other) = found.items()
    assert name.startswith("model:ModelError in agent 429: no answer from") and "30" not in name
    assert line.times == 2 and line.example == "no answer from 10.0.0.9 within 61 s"
    # An attempt that a later one replaced is found, but counts for nothing.
    assert (list(line.places), line.rollouts, line.errors) == ([0, 1], 1, 1)
    assert line.mean_reward is None and line.interval is None
    assert other.example == "the key is refused"


async def test_however_many_names_there_are_the_lines_are_bounded_and_pieces_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(tmp_path / "run", [calling(f"g{task}-0", f"tool{task}", reward=1.0) for task in range(7)])
    whole = read(tmp_path / "run")
    monkeypatch.setattr(breakdowns, "_CHUNK", 2)
    assert read(tmp_path / "run") == whole
    monkeypatch.setattr(breakdowns, "MOST_LINES", 3)
    found = read(tmp_path / "run")["tools"]
    assert len(found) == 4 and found[REST].rollouts == 4


async def test_a_run_of_a_stranger_is_read_in_as_many_pieces_as_it_has_rows(tmp_path: Path) -> None:
    await write(tmp_path, [calling("a-0", "bash", reward=1.0), calling("a-1", "bash", reward=0.0)])
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection, connection:
        connection.execute("UPDATE turns SET id = (1 << 60) + 1, body = json_set(body, '$.tool_calls[1]', 'none') "
                           "WHERE id = (SELECT max(id) FROM turns)")  # fmt: skip
        connection.execute("UPDATE rollouts SET id = 1 << 40 WHERE id = (SELECT max(id) FROM rollouts)")
    reader = Breakdowns(tmp_path)
    reader.read_more(2**40)
    assert reader.read_up_to == 2**40
    reader.close()
    assert read(tmp_path)["tools"]["bash"].rollouts == 2
