"""Batch scoring: order, honesty about what has no score, and every field as it came."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import BadRow, Environment, Outcome, Public, Score, Secret, Submission, Task
from rollouthub.engine.episode_seed import episode_seed
from rollouthub.errors import DataError, first_error
from rollouthub.hosting import InProcessHost
from tests.analysis.scoring.lines import Echo, EchoConfig, read_lines, score_lines, write_lines


async def test_lines_come_back_in_order_with_their_scores(tmp_path: Path) -> None:
    lines = [{"task_id": f"test/{index}", "completion": str(index if index % 2 else "?")} for index in range(50)]
    tally = await score_lines(write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl")
    scored = read_lines(tmp_path / "out.jsonl")
    assert [line["task_id"] for line in scored] == [line["task_id"] for line in lines]
    assert [line["score"]["reward"] for line in scored] == [float(index % 2) for index in range(50)]
    assert {line["outcome"] for line in scored} == {"scored"}
    assert (tally.lines, tally.means.mean_reward, tally.is_complete) == (50, 0.5, True)


async def test_every_other_field_keeps_its_own_text(tmp_path: Path) -> None:
    text = '{"task_id":"test/1",  "completion": "1", "p": 1e-30000, "n": 0.10, "big": 12345678901234567890, "x":NaN}'
    await score_lines(write_lines(tmp_path / "in.jsonl", [text]), tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text().startswith(text[:-1] + ', "score": {"reward":1.0')


async def test_scores_of_an_earlier_scoring_are_replaced(tmp_path: Path) -> None:
    line = {"task_id": "test/1", "score": 0.3, "completion": "1", "outcome": "x", "error": "old", "kept": {"score": 1}}
    await score_lines(write_lines(tmp_path / "in.jsonl", [line]), tmp_path / "out.jsonl")
    await score_lines(tmp_path / "out.jsonl", tmp_path / "again.jsonl")
    (scored,) = read_lines(tmp_path / "again.jsonl")
    assert list(scored) == ["task_id", "completion", "kept", "score", "outcome"]
    assert scored["score"]["reward"] == 1.0
    assert scored["kept"] == {"score": 1}


async def test_a_verifier_fault_is_no_score_and_says_why(tmp_path: Path) -> None:
    lines = [{"task_id": "test/1", "completion": words} for words in ("1", "crash", "away", "2")]
    tally = await score_lines(write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl")
    scored = read_lines(tmp_path / "out.jsonl")
    assert [line["outcome"] for line in scored] == ["scored", "verifier_failed", "verifier_failed", "scored"]
    assert scored[1]["score"] is None
    assert "KeyError" in scored[1]["error"]
    assert scored[2]["error"] == "the judge is away"
    assert tally.means.outcomes[Outcome.VERIFIER_FAILED] == 2
    assert tally.means.mean_reward == 0.5
    assert not tally.is_complete


BAD: list[tuple[Any, str]] = [
    ("{", "not JSON"),
    ("[1]", "must be an object"),
    ({"completion": "1"}, "'task_id' is missing"),
    ({"task_id": "test/1"}, "neither 'completion' nor 'messages'"),
    ({"task_id": "test/1", "completion": "1", "messages": []}, "both 'completion' and 'messages'"),
    ({"task_id": "test/1", "completion": 7}, "completion"),
    ({"task_id": "test/1", "messages": [{"role": "oracle", "content": "1"}]}, "unknown role 'oracle'"),
    ({"task_id": "tset/7", "completion": "1"}, "did you mean 'test/7"),
]


@pytest.mark.parametrize(("line", "problem"), BAD)
async def test_a_bad_line_stops_the_batch_and_names_its_place(line: Any, problem: str, tmp_path: Path) -> None:
    good = {"task_id": "test/1", "completion": "1"}
    source = write_lines(tmp_path / "in.jsonl", [good, "", line, good])
    with pytest.raises(DataError) as raised:
        await score_lines(source, tmp_path / "out.jsonl")
    assert f"{source}:3: " in str(raised.value)
    assert problem in str(raised.value)
    assert len(read_lines(tmp_path / "out.jsonl")) == 1


@pytest.mark.parametrize(("line", "problem"), BAD)
async def test_a_skipped_bad_line_keeps_its_place_and_counts(line: Any, problem: str, tmp_path: Path) -> None:
    good = {"task_id": "test/1", "completion": "1"}
    source = write_lines(tmp_path / "in.jsonl", [good, line, good])
    tally = await score_lines(source, tmp_path / "out.jsonl", skip_bad=True)
    before, bad, after = read_lines(tmp_path / "out.jsonl")
    assert (before["outcome"], after["outcome"]) == ("scored", "scored")
    assert (bad["outcome"], bad["score"]) == ("bad_row", None)
    assert problem in bad["error"]
    assert (tally.bad_rows, tally.means.scored, tally.is_complete) == (1, 2, False)
    if isinstance(line, dict):
        assert line.items() <= bad.items()
    else:
        assert bad["line"] == line


async def test_messages_are_scored_by_their_last_words_or_what_they_submit(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "submit", "arguments": '{"answer": "1"}'}}
    loose = {"function": {"name": "submit", "arguments": {"answer": "1"}}}
    conversations: list[list[dict[str, Any]]] = [
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": "1"}],
        [{"role": "assistant", "content": [{"type": "text", "text": "1"}]}],
        [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "assistant", "content": "2"}],
        [{"role": "assistant", "tool_calls": [loose]}],
        [{"role": "assistant", "content": "1"}, {"role": "tool", "content": "2", "tool_call_id": "1"}],
        [{"role": "developer", "content": "1"}, {"role": "assistant", "content": "2"}],
    ]
    lines = [{"task_id": "test/1", "messages": messages} for messages in conversations]
    await score_lines(write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl")
    assert [line["score"]["reward"] for line in read_lines(tmp_path / "out.jsonl")] == [1, 1, 1, 1, 1, 0]


async def test_a_gold_answer_beside_a_completion_is_not_taken_for_what_was_said(tmp_path: Path) -> None:
    line = {"task_id": "test/1", "completion": "wrong", "answer": "1"}
    source = write_lines(tmp_path / "in.jsonl", [line])
    assert (await score_lines(source, tmp_path / "out.jsonl")).means.mean_reward == 0.0
    asked = await score_lines(source, tmp_path / "asked.jsonl", answer_field="answer")
    assert asked.means.mean_reward == 1.0


async def test_samples_of_a_task_are_grouped(tmp_path: Path) -> None:
    lines = [{"task_id": f"test/{index % 4}", "completion": "0"} for index in range(16)]
    tally = await score_lines(write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl")
    figures = tally.as_json()
    assert figures["tasks"] == 4
    assert {at["k"]: at["pass_at_k"]["value"] for at in figures["at_k"]} == {1: 0.25, 2: 0.25, 4: 0.25}


async def test_tasks_may_be_named_in_any_order(tmp_path: Path) -> None:
    numbers = list(range(100)) * 3
    random.Random(0).shuffle(numbers)
    lines = [{"task_id": f"test/{number}", "completion": str(number)} for number in numbers]
    tally = await score_lines(write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl", concurrency=7)
    assert tally.means.mean_reward == 1.0


async def test_an_episode_has_the_seed_it_would_have_in_a_run(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl", [{"task_id": "test/3", "completion": "seed"}])
    await score_lines(source, tmp_path / "out.jsonl", seed=7)
    (line,) = read_lines(tmp_path / "out.jsonl")
    assert line["score"]["reward"] == episode_seed(7, "echo", "test", "test/3")


class Slow(Echo):
    """The first line waits until thirty others are judged."""

    judged = 0
    enough: anyio.Event

    async def verify(self, submission: Submission) -> Score:
        kind = type(self)
        if submission.final == "slow":
            with anyio.fail_after(5):
                await kind.enough.wait()
        kind.judged += 1
        if kind.judged == 30:
            kind.enough.set()
        return await super().verify(submission)


async def test_a_slow_line_holds_up_only_the_writing(tmp_path: Path) -> None:
    Slow.judged, Slow.enough = 0, anyio.Event()
    lines = [{"task_id": "test/0", "completion": "slow" if index == 0 else "0"} for index in range(40)]
    host = InProcessHost("slow", Slow, EchoConfig())
    source = write_lines(tmp_path / "in.jsonl", [{**line, "place": place} for place, line in enumerate(lines)])
    await score_lines(source, tmp_path / "out.jsonl", host=host, concurrency=4)
    assert [line["place"] for line in read_lines(tmp_path / "out.jsonl")] == list(range(40))


class Holed(Echo):
    """A row of its data makes no task."""

    @classmethod
    def tasks(cls, config: EchoConfig, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        yield BadRow(DataError("no answer", "data.jsonl", 1))
        yield from super().tasks(config, split, seed)


async def test_a_bad_row_of_the_tasks_stops_unless_skipped(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl", [{"task_id": "test/1", "completion": "1"}])
    host = InProcessHost("holed", Holed, EchoConfig())
    with pytest.raises(DataError, match=r"data\.jsonl:1") as raised:
        await _unwrapped(score_lines(source, tmp_path / "out.jsonl", host=host))
    assert "no answer" in str(raised.value)
    tally = await score_lines(source, tmp_path / "skipped.jsonl", host=host, skip_bad=True)
    assert tally.means.mean_reward == 1.0


async def _unwrapped(work: Any) -> Any:
    """Errors out of their task group, as the command shows them."""
    try:
        return await work
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def test_gzip_goes_both_ways(tmp_path: Path) -> None:
    lines = [{"task_id": f"test/{index % 100}", "completion": "x" * 50} for index in range(3000)]
    source = write_lines(tmp_path / "in.jsonl.gz", lines)
    await score_lines(source, tmp_path / "out.jsonl.gz")
    assert [line["task_id"] for line in read_lines(tmp_path / "out.jsonl.gz")] == [line["task_id"] for line in lines]


async def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl.gz", [{"task_id": "test/1", "completion": "1"}] * 1000)
    source.write_bytes(source.read_bytes()[:-20])
    with pytest.raises(DataError, match="damaged"):
        await _unwrapped(score_lines(source, tmp_path / "out.jsonl"))


async def test_a_rollout_of_an_export_is_scored_as_it_was(tmp_path: Path) -> None:
    from tests.store.records import record

    rollout = record("a-0", task={"split": "test", "id": "test/1", "digest": "sha256:0"}, answer="1")
    failed = record("b-0", outcome=Outcome.MODEL_FAILED, task=rollout.task)
    lines = [item.model_dump_json() for item in (rollout, failed)]
    await score_lines(write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl")
    scored, unscored = read_lines(tmp_path / "out.jsonl")
    assert scored["score"]["reward"] == 1.0
    assert scored["turns"] == json.loads(rollout.model_dump_json())["turns"]
    assert (unscored["outcome"], unscored["score"]) == ("model_failed", None)


def test_an_environment_says_itself_whether_text_is_enough() -> None:
    assert not Environment.scores_transcripts
    assert InProcessHost("echo", Echo).info.scores_transcripts
