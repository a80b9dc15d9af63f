"""What is told of records: their scores, their times, themselves, and what the store gives of them."""

import json
from pathlib import Path
from typing import Any

from rich.text import Text

from rollouthub import Outcome, Rollout, Score
from rollouthub.limits import Limits
from rollouthub.live.follow import RunFeed
from rollouthub.rollout import Intervention
from rollouthub.score import Component, SpanReward
from rollouthub.store import open_run
from rollouthub_tui.widgets.rollout.document import Section
from rollouthub_tui.widgets.rollout.outcome_facts import Mates
from rollouthub_tui.widgets.rollout.record_document import raw_record, record_text
from rollouthub_tui.widgets.rollout.record_reader import other_sample, place_of, read_record, training_rows
from rollouthub_tui.widgets.rollout.score_document import verdict
from rollouthub_tui.widgets.rollout.spans import stretches
from rollouthub_tui.widgets.rollout.transcript import transcript
from tests.store.records import conversation, record, write


def told(sections: list[Section]) -> str:
    """All the words of a document."""
    lines: list[str] = []
    for section in sections:
        lines.append(section.title(200, True).plain)
        for piece in section.pieces:
            lines += [(piece.head or Text("")).plain, piece.text]
    return "\n".join(lines)


def test_a_score_tells_each_share_and_how_it_stands_among_its_mates() -> None:
    score = Score(
        reward=0.6, passed=False, components={"a": Component(value=1.0, weight=0.5), "b": Component(value=0.1)}
    )
    words = told(verdict(record(score=score), Mates((0.6, 0.2, None))))
    assert "1 × 0.5 = 0.500" in words
    assert "0.1 × 1 = 0.100" in words
    assert "3 samples, 1 unscored" in words
    assert "+0.200 from the mean, +0.71 deviations" in words
    assert "nothing to learn from" in told(verdict(record(), Mates((1.0, 1.0))))


def test_a_score_tells_which_tokens_of_which_turn_were_rewarded() -> None:
    spans = [SpanReward(turn=1, start=at, end=at + 1, reward=0.25) for at in range(10)]
    score = Score(reward=1.0, span_rewards=(*spans, SpanReward(turn=0, start=2, end=6, reward=-0.5)))
    words = told(verdict(record(score=score), None))
    assert "11 spans of turns, +2 together" in words
    assert "turn 1      tokens 2 to 5 -0.5\n" in words
    assert "turn 2      tokens 0 to 0 +0.25, " in words
    assert "tokens 7 to 7 +0.25, 2 more spans +0.5" in words


def test_the_words_of_a_judge_stand_with_the_turn_and_with_the_score() -> None:
    said: dict[str, Any] = {
        "team": "a deal",
        "turns": {"1": "to the \x1b[31mpoint"},
        "seats": {"agent": "held", "ghost": "none"},
    }
    score = Score(reward=1.0, turn_rewards={1: 0.5}, seat_rewards={"agent": 1.0}, metadata={"credit": said})
    rollout = record(turns=conversation(2), score=score)
    by_turn = [told([section]) for section in transcript(rollout)]
    assert "judge\nto the point" in by_turn[1]
    assert "judge" not in by_turn[0]
    words = told(verdict(rollout, None))
    assert "Said by judges and other models\njudge, of the whole\na deal\njudge, of agent\nheld" in words
    assert "ghost" not in words


def test_what_is_unscored_has_no_reward_and_tells_its_fault_and_kind() -> None:
    for outcome in (Outcome.AGENT_FAILED, Outcome.SANDBOX_FAILED, Outcome.VERIFIER_FAILED, Outcome.CANCELLED):
        words = told(verdict(record(outcome=outcome), None))
        assert "there is none: unscored, which is not 0" in words
        assert outcome.value in words
        assert "in agent: " in words and "it broke" in words
        assert "0.000" not in words


def test_turns_that_do_not_follow_the_one_before_say_so() -> None:
    first, second, third = conversation(3)
    forked = (first, second, third.model_copy(update={"parent_turn": 0, "agent": "judge"}))
    titles = [section.title(120, True).plain for section in transcript(record(turns=forked))]
    assert "after turn 1" in titles[2]
    assert "judge" in titles[2]
    assert "after" not in titles[1]
    assert (
        "begins anew"
        in transcript(record(turns=(first, second.model_copy(update={"parent_turn": None}))))[1].title(120, True).plain
    )


def test_a_conversation_ends_with_what_became_of_it() -> None:
    assert transcript(record())[-1].title(120, True).plain == "✓ ended · finished · reward 1.000"
    (broken,) = transcript(record(outcome=Outcome.MODEL_FAILED, turns=()))
    assert broken.title(120, True).plain == "! ended without any turn · failed · infrastructure fault, unscored"
    assert broken.has_error
    assert "it broke" in told([broken])


def test_what_people_did_to_a_rollout_is_told() -> None:
    steered = record(told=(Intervention(at=3.0, seat="agent", text="look\x1b[2J up"),), retuned=Limits(max_turns=9))
    words = told(verdict(steered, None))
    assert "a person said to agent: 'look up' (3.00 s in): its score is not the agent's alone" in words
    assert "a person changed its limits while it was played, to: max turns 9" in words


def test_stages_calls_and_tools_lie_on_one_axis() -> None:
    found = [(each.kind, each.started) for each in stretches(record())]
    assert found == [("setup", 0.0), ("model", 0.0), ("tool", 0.5), ("model", 0.0)]


async def test_a_record_is_read_without_its_prompts_and_tells_their_lengths(tmp_path: Path) -> None:
    whole = record(turns=conversation(3))
    await write(tmp_path / "run", [whole, record("g1-1"), record("g1-10", attempt=1, outcome=Outcome.MODEL_FAILED)])
    read = read_record(tmp_path / "run", "g1-0", 0)
    with open_run(tmp_path / "run") as reader:
        full = reader.rollout("g1-0")
    assert read.prompt_lengths == tuple(len(turn.prompt_token_ids or ()) for turn in full.turns)
    assert [turn.model_copy(update={"prompt_token_ids": None}) for turn in full.turns] == list(read.rollout.turns)
    assert training_rows(tmp_path / "run", read).startswith("1 training row of 26 tokens, 12 of them learnt from")
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        assert place_of(feed.columns, "g1-1", 0) == 1
        assert place_of(feed.columns, "g1-10", 0) is None
        assert other_sample(feed.columns, 0) == 1
        assert Mates.of(feed.columns, 0) == Mates((1.0, 1.0, None))
    shown = json.loads(record_text(read.rollout, read.prompt_lengths))
    assert shown["turns"][1]["prompt_token_ids"] == "[… 16 ids]"
    assert shown["turns"][1]["output_logprobs"] == "[… 4 values]"
    assert Rollout.model_validate({**shown, "turns": ()}).rollout_id == "g1-0"


def test_the_raw_record_escapes_what_cannot_be_drawn() -> None:
    hostile = record(answer="\x1b[2J\u202e\x9b\u200d漢", turns=conversation(1))
    words = told(raw_record(hostile, [None]))
    assert r"\u001b[2J\u202e\u009b\u200d漢" in words
    assert '"prompt_token_ids": null' in words


def test_the_conversation_ends_with_why_it_was_paid_so() -> None:
    score = Score(
        reward=0.5, passed=False, feedback="expected 8547, got 8548", components={"near": Component(value=0.5)}
    )
    ended = told([transcript(record(score=score))[-1]])
    assert ended.startswith("◐ ended · finished · reward 0.500")
    assert "feedback of the verifier\nexpected 8547, got 8548" in ended
    assert "near  0.5 × 1" in ended
    assert told([transcript(record(score=Score(reward=1.0, passed=True)))[-1]]).startswith("✓ ended")
    assert told([transcript(record(score=Score(reward=0.0, passed=False)))[-1]]).startswith("✗ ended")
    assert told([transcript(record(score=Score(reward=0.0)))[-1]]).startswith("● ended")
