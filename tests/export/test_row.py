"""Training rows: aligned arrays in which every sampled token stands once, and what each turn was worth."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub import Rollout, Score, Turn
from rollouthub.export import Credit, NotTrainable, Refusal, training_rows, turn_returns, why_refused
from rollouthub.export.not_trainable import Need
from rollouthub.rollout import SUSPECT
from rollouthub.score import SpanReward
from rollouthub.values import Float32s, Int32s
from tests.export.made import rollout, turn

ids = st.lists(st.integers(0, 3), min_size=1, max_size=3)
"""Few of them, so that prompts begin alike by chance as well."""


@st.composite
def played(draw: st.DrawFn) -> Rollout:
    """A tree of turns of two seats: prompts that go on from what was sampled and some that do not, masks, rewards."""
    turns: list[Turn] = []
    for index in range(draw(st.integers(1, 6))):
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        before: list[int] = []
        if parent is not None and draw(st.booleans()):
            known = turns[parent]
            before = [*(known.prompt_token_ids or ()), *(known.output_token_ids or ())]
        output = draw(ids)
        mask = draw(st.none() | st.lists(st.integers(0, 1), min_size=len(output), max_size=len(output)))
        turns.append(
            turn(
                index,
                [*before, *draw(ids)],
                output,
                parent=parent,
                agent=draw(st.sampled_from("ab")),
                output_mask=None if mask is None else Int32s(mask),
                reward=draw(st.none() | st.integers(-4, 4).map(float)),
                policy_version=draw(st.none() | st.integers(0, 3)),
            )
        )
    return rollout(*turns, reward=draw(st.integers(-4, 4).map(float)))


@settings(deadline=None, max_examples=25)
@given(played())
def test_every_sampled_token_stands_once_in_arrays_of_one_length(record: Rollout) -> None:
    rows = training_rows(record)
    assert [row.index for row in rows] == list(range(len(rows)))
    assert math.isclose(sum(row.weight for row in rows), 1.0)
    assert sorted(place for row in rows for place in row.turns) == list(range(len(record.turns)))
    for row in rows:
        segment, begin = row.segment, row.segment.prompt_length
        spoken = [record.turns[place] for place in row.turns]
        assert {each.agent for each in spoken} == {segment.agent}
        assert [*row.prompt_ids, *row.response_ids] == [
            *(spoken[-1].prompt_token_ids or ()),
            *(spoken[-1].output_token_ids or ()),
        ]
        assert row.prompt_ids == list(spoken[0].prompt_token_ids or ())
        assert not any(segment.loss_mask[:begin])
        lengths = {
            len(row.response_ids),
            len(row.response_mask),
            len(row.response_logprobs),
            len(row.response_versions),
        }
        assert lengths == {len(segment.token_ids) - begin}
        # By turn, everything is what its engine gave; between turns there is nothing of the policy's.
        sampled: dict[int, list[tuple[int, int, float, int]]] = {place: [] for place in row.turns}
        for token, mask, logprob, version, place in zip(
            segment.token_ids, segment.loss_mask, segment.logprobs, segment.versions, segment.turn_ids, strict=True
        ):
            if place < 0:
                assert (mask, logprob, version) == (0, 0.0, -1)
            else:
                sampled[place].append((token, mask, logprob, version))
        for each in spoken:
            output = each.output_token_ids or Int32s()
            version = -1 if each.policy_version is None else each.policy_version
            assert sampled[each.index] == list(
                zip(
                    output,
                    each.output_mask or [1] * len(output),
                    each.output_logprobs or (),
                    [version] * len(output),
                    strict=True,
                )
            )


@settings(deadline=None, max_examples=25)
@given(played(), st.sampled_from((0.0, 0.5, 1.0)), st.booleans())
def test_a_turn_is_worth_its_own_reward_and_the_discounted_next_of_its_seat(
    record: Rollout, discount: float, terminal: bool
) -> None:
    returns = turn_returns(record, Credit(discount=discount, terminal=terminal))
    for place, each in enumerate(record.turns):
        following = next((later for later in record.turns[place + 1 :] if later.agent == each.agent), None)
        verdict = record.reward if terminal else 0.0
        rest = verdict if following is None else discount * returns[following.index]
        assert rest is not None
        assert math.isclose(returns[place], (each.reward or 0.0) + rest)


@pytest.mark.parametrize("need", ["tokens", "logprobs"])
@pytest.mark.parametrize(
    "changes",
    [
        {"output_mask": Int32s([1])},
        {"output_mask": Int32s([1, 2])},
        {"policy_versions": Int32s([1])},
        {"prompt_token_ids": Int32s([-1])},
        {"policy_version": 2**40},
    ],
)
def test_arrays_that_contradict_each_other_are_corrupt_whatever_is_needed(changes: dict[str, Any], need: Need) -> None:
    refused = why_refused(rollout(turn(0, [1], [2, 3], **changes)), need)
    assert refused is not None
    assert refused.refusal is Refusal.CORRUPT


@pytest.mark.parametrize("need", ["tokens", "logprobs"])
def test_what_a_fallback_sampled_is_not_the_policys(need: Need) -> None:
    spoken = turn(0, [1], [2], model="hosted_vllm/other")
    refused = why_refused(rollout(spoken), need)
    assert refused is not None
    assert refused.refusal is Refusal.OTHER_TOKENIZER
    assert why_refused(rollout(spoken), "text") is None
    assert why_refused(rollout(turn(0, [1], [2], model="hosted_vllm/tiny")), need) is None


def test_ids_that_no_engine_is_known_to_have_given_are_as_good_as_none() -> None:
    refused = why_refused(rollout(turn(0, [1], [2], token_source="none")), "tokens")
    assert refused is not None
    assert refused.refusal is Refusal.TEXT_ONLY


@pytest.mark.parametrize("need", ["tokens", "logprobs"])
@pytest.mark.parametrize(
    "score",
    [
        {"span_rewards": (SpanReward(turn=1, start=0, end=1, reward=1.0),)},
        {"span_rewards": (SpanReward(turn=-1, start=0, end=1, reward=1.0),)},
        {"span_rewards": (SpanReward(turn=0, start=0, end=3, reward=1.0),)},
        {"span_rewards": (SpanReward(turn=0, start=0, end=1, reward=1e308),) * 2},
        {"seat_rewards": {"agent": -1e39}},
        {"reward": 1e308},
    ],
)
def test_rewards_that_no_row_can_hold_are_corrupt(score: dict[str, Any], need: Need) -> None:
    given: dict[str, Any] = {"reward": 1.0, **score}
    record = rollout(turn(0, [1], [2, 3])).model_copy(update={"score": Score(**given)})
    refused = why_refused(record, need)
    assert refused is not None
    assert refused.refusal is Refusal.CORRUPT


def test_turns_that_are_not_numbered_as_they_came_are_corrupt() -> None:
    refused = why_refused(rollout(turn(0, [1], [2]), turn(2, [1, 2], [3], parent=0)), "tokens")
    assert refused is not None
    assert refused.refusal is Refusal.CORRUPT


@pytest.mark.parametrize("missing", [None, Float32s()])
def test_where_no_logprobs_are_needed_missing_ones_are_unknown_and_misaligned_ones_corrupt(missing: Any) -> None:
    [row] = training_rows(rollout(turn(0, [1], [2, 3], output_logprobs=missing)), need="tokens")
    assert all(math.isnan(value) for value in row.response_logprobs)
    refused = why_refused(rollout(turn(0, [1], [2, 3], output_logprobs=Float32s([-1.0]))), "tokens")
    assert refused is not None
    assert refused.refusal is Refusal.CORRUPT


@pytest.mark.parametrize("value", [-9999.0, -math.inf, math.nan, 0.5])
def test_a_number_that_is_no_logprob_of_a_sampled_token_is_corrupt(value: float) -> None:
    refused = why_refused(rollout(turn(0, [1], [2, 3], output_logprobs=Float32s([-1.0, value]))))
    assert refused is not None
    assert refused.refusal is Refusal.CORRUPT


def test_a_suspect_reward_is_learnt_from_only_where_that_is_asked_for() -> None:
    why = "the runner was replaced"
    doubted = rollout(score=Score(reward=0.0, suspect=why), trainable=False, trainable_reason=f"{SUSPECT}{why}")
    for need in ("logprobs", "tokens", "text"):
        refused = why_refused(doubted, need)
        assert refused is not None
        assert refused.refusal is Refusal.SUSPECT
        assert why in refused.reason
        assert why_refused(doubted, need, suspect=True) is None
    with pytest.raises(NotTrainable, match="suspect"):
        training_rows(doubted)
    assert training_rows(doubted, suspect=True)
