"""Rewards of turns, spans and seats, from a verifier to the record and to what is trained on."""

import pytest

from rollouthub import (
    Message,
    Outcome,
    Rollout,
    Score,
    SpanReward,
    Stop,
    Submission,
)
from rollouthub.export import turn_returns, turn_rewards
from rollouthub.protocols import Seat

from .conftest import Counter, Player

VERDICTS = {
    "turns": Score(reward=1, turn_rewards={0: 0.25, 1: 0.5}),
    "unknown turn": Score(reward=1, turn_rewards={7: 1.0}),
    "unknown seat": Score(reward=1, seat_rewards={"nobody": 1.0}),
    "unknown span": Score(reward=1, span_rewards=(SpanReward(turn=3, start=0, end=1, reward=1.0),)),
    "none": Score(reward=1),
}


class Stepwise(Counter):
    """Rewards what the name of its verdict says."""

    reads_turns = True
    verdict = "turns"

    async def verify(self, submission: Submission) -> Score:
        assert [(turn.index, turn.seat, turn.response.text) for turn in submission.turns] == [
            (0, "agent", "first"),
            (1, "agent", "second"),
        ]
        return VERDICTS[self.verdict]


class TwoWords:
    """Says two things."""

    name, version = "two_words", "1"
    config = {}

    async def play(self, seat: Seat) -> Stop:
        first = Message(role="assistant", content="first")
        seat.say(seat.messages, first)
        seat.say([*seat.messages, first], Message(role="assistant", content="second"))
        return Stop.FINISHED


async def _played(attempt: Player, verdict: str) -> Rollout:
    kind = type("Stepwise", (Stepwise,), {"verdict": verdict})
    return await attempt(TwoWords(), environment=kind).play()


async def test_rewards_of_turns_stand_on_the_turns_of_the_record(attempt: Player) -> None:
    rollout = await _played(attempt, "turns")
    assert [turn.reward for turn in rollout.turns] == [0.25, 0.5]
    assert turn_rewards(rollout) == [0.25, 1.5]
    assert turn_returns(rollout) == [1.75, 1.5]


async def test_without_them_a_turn_has_no_reward(attempt: Player) -> None:
    assert [turn.reward for turn in (await _played(attempt, "none")).turns] == [None, None]


@pytest.mark.parametrize("verdict", ["unknown turn", "unknown seat", "unknown span"])
async def test_a_verdict_about_what_was_never_played_is_a_verifier_fault(attempt: Player, verdict: str) -> None:
    rollout = await _played(attempt, verdict)
    assert rollout.outcome is Outcome.VERIFIER_FAILED
    assert rollout.score is None
    assert "the score rewards" in rollout.faults[-1].message
