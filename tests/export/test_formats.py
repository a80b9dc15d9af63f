"""The rows of each format: words, and ids, masks, log-probabilities and rewards exactly as the record has them."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from rollouthub import Message, Score, ToolCall, ToolRequest
from rollouthub.authoring.rewards import group_advantages
from rollouthub.export.filters import Filters
from rollouthub.export.segment import segments
from rollouthub.rollout import Usage
from rollouthub.score import Component
from tests.export.kept import DIGEST, PICTURE, group, keep, made, shown, texts
from tests.export.made import forked, rollout, turn

IDS = [1, 2, 3, 4, 5, 6, 7]
MASK = [0, 0, 0, 1, 1, 0, 1]


def called() -> list[Any]:
    """Two turns, the first of which called a tool."""
    result = CallToolResult(content=[TextContent(text="3")])
    call = ToolCall(id="c", name="add", arguments={"x": 1}, result=result, started=0.5, seconds=0.25, bytes=1)
    asked = Message(role="assistant", tool_requests=(ToolRequest(id="c", name="add", arguments='{"x": 1}'),))
    return [
        turn(0, [1, 2, 3], [4, 5], response=asked, tool_calls=(call,)),
        turn(1, IDS[:6], [7], messages=(Message(role="tool", content="3", tool_call_id="c"),)),
    ]


def test_sft_has_the_conversation_its_tools_and_where_it_comes_from(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", rollout(*called(), tools_digest="sha256:tools"))
    [row] = made(run).rows
    assert [message["role"] for message in row["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert row["messages"][1]["tool_calls"][0]["function"] == {"name": "add", "arguments": {"x": 1}}
    assert json.loads(row["tools"])[0]["function"]["name"] == "calculate"
    assert (row["rollout_id"], row["environment"], row["task_id"]) == ("g1-0", "arithmetic", "train/g1")
    assert (row["reward"], row["passed"], row["token_exact"], row["turns"]) == (1.0, True, True, 2)
    assert "input_ids" not in row


def test_sft_with_tokens_trains_on_what_was_sampled_alone(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", rollout(turn(0, [1, 2, 3], [4, 5]), turn(1, IDS[:6], [7])))
    [row] = made(run, tokens=True).rows
    assert (row["input_ids"].tolist(), row["loss_mask"].tolist()) == (IDS, MASK)
    assert row["labels"].tolist() == [-100, -100, -100, 4, 5, -100, 7]


def test_sft_takes_the_best_of_a_group_and_counts_the_others(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", *group(0.5, 1.0, 1.0), repeats=3)
    found = made(run, best=1)
    assert [row["rollout_id"] for row in found.rows] == ["g1-1"]
    assert found.left_out == {"not_best": 2}


def test_dpo_pairs_part_where_the_answers_do(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", *group(0.0, 1.0, 0.5), repeats=3)
    found = made(run, format="dpo", tokens=True)
    [row] = found.rows
    assert texts(row["prompt"]) == ["asked 0", "said 0", "asked 1"]
    assert (texts(row["chosen"]), texts(row["rejected"])) == (["1!"], ["0!"])
    assert (row["chosen_rollout_id"], row["rejected_rollout_id"], row["margin"]) == ("g1-1", "g1-0", 1.0)
    assert row["prompt_token_ids"].tolist() == IDS[:6]
    assert (row["chosen_token_ids"].tolist(), row["rejected_token_ids"].tolist()) == ([7, 71], [7, 70])
    assert row["chosen_loss_mask"].tolist() == row["rejected_loss_mask"].tolist() == [1, 1]
    assert found.left_out == {"no_pair": 1}


def test_dpo_goes_back_to_ids_that_both_were_asked(tmp_path: Path) -> None:
    other = turn(1, [1, 2, 3, 4, 9, 6], [8], response=Message(role="assistant", content="no"))
    first = turn(0, [1, 2, 3], [4, 9])  # the same words, sampled as other ids
    run = keep(tmp_path / "run", rollout(sample=0), rollout(first, other, reward=0.0, sample=1), repeats=2)
    [row] = made(run, format="dpo", tokens=True).rows
    assert texts(row["prompt"]) == ["asked 0"]
    assert row["prompt_token_ids"].tolist() == [1, 2, 3]
    assert (row["chosen_token_ids"].tolist(), row["rejected_token_ids"].tolist()) == ([4, 5, 6, 7], [4, 9, 6, 8])
    assert row["rejected_loss_mask"].tolist() == [1, 1, 0, 1]


def test_dpo_makes_no_pair_of_other_questions_or_of_the_same_words(tmp_path: Path) -> None:
    asked = turn(0, [8], [4], messages=(Message(role="user", content="something else"),))
    run = keep(
        tmp_path / "run",
        rollout(turn(0, [1], [2]), group="a", sample=0),
        rollout(asked, group="a", sample=1, reward=0.0),
        rollout(turn(0, [1], [2]), group="b", sample=0),
        rollout(turn(0, [1], [3]), group="b", sample=1, reward=0.0),
        repeats=2,
    )
    found = made(run, format="dpo")
    assert found.rows == []
    assert found.left_out == {"prompts_differ": 2, "same_words": 2}


def test_kto_labels_by_verdict_or_by_threshold(tmp_path: Path) -> None:
    undecided = rollout(group="g2", score=Score(reward=0.6))
    run = keep(tmp_path / "run", *group(0.25, 1.0), undecided, repeats=2)
    found = made(run, format="kto")
    assert [(row["rollout_id"], row["label"]) for row in found.rows] == [("g1-0", False), ("g1-1", True)]
    assert found.left_out == {"no_verdict": 1}
    found = made(run, format="kto", threshold=0.6, tokens=True)
    assert [row["label"] for row in found.rows] == [False, True, True]
    row = found.rows[0]
    assert (texts(row["prompt"]), texts(row["completion"])) == (["asked 0"], ["said 0", "asked 1", "0!"])
    assert row["prompt_token_ids"].tolist() == [1, 2, 3]
    assert row["completion_token_ids"].tolist() == [4, 5, 6, 7, 70]
    assert row["completion_loss_mask"].tolist() == [1, 1, 0, 1, 1]


@pytest.mark.parametrize("method", ["mean", "mean_std", "leave_one_out"])
def test_groups_are_segments_with_what_they_were_worth_among_their_fellows(tmp_path: Path, method: str) -> None:
    rewards = [0.25, 1.0, 0.0]
    records = [
        record.model_copy(update={"score": Score(reward=reward, components={"right": Component(value=reward)})})
        for record, reward in zip(group(*rewards), rewards, strict=True)
    ]
    run = keep(tmp_path / "run", *records, repeats=3)
    rows = made(run, format="groups", advantage=method).rows
    assert [row["advantage"] for row in rows] == group_advantages(rewards, method)  # pyright: ignore[reportArgumentType]
    for row, record in zip(rows, records, strict=True):
        [segment] = segments(record)
        for name in ("token_ids", "loss_mask", "logprobs", "versions", "turn_ids"):
            assert row[name] == getattr(segment, name)
        assert (row["group_id"], row["group_size"], row["prompt_length"]) == ("g1", 3, 3)
        assert (row["reward"], row["components"]) == (record.reward, {"right": record.reward})
        assert (row["policy_version_min"], row["token_exact"], row["weight"]) == (3, True, 1.0)


def test_a_forked_rollout_makes_rows_that_weigh_no_more_than_another(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", forked())
    rows = made(run, format="groups").rows
    assert [(row["segment"], row["segments"], row["weight"]) for row in rows] == [(0, 2, 0.5), (1, 2, 0.5)]


def test_advantages_are_among_all_that_were_scored_though_filters_take_some(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", *group(0.0, 1.0), repeats=2)
    found = made(run, format="groups", advantage="mean", filters=Filters(passed=True))
    assert [(row["rollout_id"], row["advantage"], row["group_size"]) for row in found.rows] == [("g1-1", 0.5, 2)]
    assert found.left_out == {"passed": 1}


def test_atif_tells_what_happened_step_by_step(tmp_path: Path) -> None:
    record = rollout(*called(), tools_digest="sha256:tools", started_at=1_000_000_000.0)
    [row] = made(keep(tmp_path / "run", record), format="atif").rows
    told = row["trajectory"]
    assert (told["schema_version"], told["agent"]["name"]) == ("ATIF-v1.8", "tool_loop")
    assert told["agent"]["tool_definitions"][0]["function"]["name"] == "calculate"
    user, first, second = told["steps"]
    assert [step["step_id"] for step in told["steps"]] == [1, 2, 3]
    assert (user["source"], user["message"]) == ("user", "asked 0")
    assert first["tool_calls"] == [{"tool_call_id": "c", "function_name": "add", "arguments": {"x": 1}}]
    [result] = first["observation"]["results"]
    assert (result["source_call_id"], result["content"]) == ("c", "3")
    assert first["timestamp"] == "2001-09-09T01:46:40+00:00"
    metrics = second["metrics"]
    assert metrics["prompt_token_ids"].tolist() == IDS[:6]
    assert (metrics["completion_token_ids"].tolist(), metrics["logprobs"].tolist()) == ([7], [-0.125])
    assert metrics["extra"]["policy_version"] == 3
    assert told["final_metrics"]["total_steps"] == 3
    assert (told["extra"]["reward"], told["extra"]["trainable"]) == (1.0, True)
    words = made(tmp_path / "run", format="atif", tokens=False).rows[0]["trajectory"]
    assert "prompt_token_ids" not in words["steps"][1]["metrics"]


def test_atif_puts_further_seats_inside_and_keeps_what_was_no_object(tmp_path: Path) -> None:
    broken = Message(role="assistant", tool_requests=(ToolRequest(id="c", name="add", arguments="{x"),))
    record = rollout(
        turn(0, [1], [2], response=broken),
        turn(1, [1, 2], [3], messages=(Message(role="tool", content="no JSON", tool_call_id="c"),)),
        turn(2, [5], [6], parent=None, agent="critic"),
    )
    [row] = made(keep(tmp_path / "run", record), format="atif").rows
    told = row["trajectory"]
    step = told["steps"][1]
    assert step["tool_calls"][0] == {
        "tool_call_id": "c",
        "function_name": "add",
        "arguments": {},
        "extra": {"text": "{x"},
    }
    assert step["observation"]["results"] == [{"source_call_id": "c", "content": "no JSON"}]
    [other] = told["subagent_trajectories"]
    assert (other["agent"]["extra"], len(other["steps"])) == ({"seat": "critic"}, 2)


def test_atif_shows_what_must_not_be_learnt_from_only_when_asked_and_says_so(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", *group(1.0, None), repeats=2)
    assert made(run, format="atif").left_out == {"unscored": 1}
    rows = made(run, format="atif", untrainable=True).rows
    assert [row["trajectory"]["extra"]["trainable"] for row in rows] == [True, False]
    assert "reward" not in rows[1]["trajectory"]["extra"]


def test_pictures_are_paths_in_their_order_and_other_media_are_left_out(tmp_path: Path) -> None:
    first = turn(0, [1], [2], messages=(shown(),))
    heard = turn(0, [1], [2], messages=(shown("audio/wav"),))
    run = keep(
        tmp_path / "run", rollout(first), rollout(group="g2"), rollout(heard, group="g3"), media={DIGEST: PICTURE}
    )
    for form in ("sft", "kto"):
        found = made(run, format=form)
        [path], none = (row["images"] for row in found.rows)
        assert (Path(path).read_bytes(), none) == (PICTURE, [])
        assert "images" in found.columns
        assert found.left_out == {"other_media": 1}
    step = made(run, format="atif").rows[0]["trajectory"]["steps"][0]
    assert step["message"][1]["source"] == {"media_type": "image/png", "path": path}


def test_words_alone_are_told_from_exact_tokens(tmp_path: Path) -> None:
    plain = turn(0, [1], [2], prompt_token_ids=None, output_token_ids=None, token_source="none", usage=Usage())
    run = keep(tmp_path / "run", rollout(), rollout(plain, group="g2"))
    for form in ("sft", "kto", "atif"):
        assert [row["token_exact"] for row in made(run, format=form).rows] == [True, False]
    assert made(run, tokens=True).left_out == {"text_only": 1}
    assert made(run, format="groups").left_out == {"text_only": 1}
