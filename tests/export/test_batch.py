"""Groups into rows: whole groups or none, and masks over what an older policy sampled."""

from dataclasses import dataclass

import pytest

from rollouthub import Rollout
from rollouthub.export import Refusal, batch_rows, is_masked, mask_stale
from rollouthub.export.segment import segments
from rollouthub.values import Int32s

from .made import forked, rollout, turn


@dataclass(frozen=True)
class Made:
    """A group, made by hand."""

    rollouts: tuple[Rollout, ...]
    size: int = 2
    group_id: str = "g1"


def partly_new(sample: int = 0, reward: float = 1.0) -> Rollout:
    """Weights changed in the middle of its second answer."""
    old = turn(0, [1, 2, 3], [4, 5])
    new = turn(1, [1, 2, 3, 4, 5, 6], [7, 8], policy_version=None, policy_versions=Int32s([3, 4]))
    return rollout(old, new, reward=reward, sample=sample)


def test_every_row_has_its_members_advantage_and_forks_share_one() -> None:
    made = batch_rows([Made((forked(sample=0, reward=1.0), rollout(sample=1, reward=0.0)))], "leave_one_out")
    assert [(row.rollout.sample, row.index, row.count, advantage) for row, advantage in made.rows] == [
        (0, 0, 2, 1.0),
        (0, 1, 2, 1.0),
        (1, 0, 1, -1.0),
    ]
    assert (made.refused, made.counts) == ([], {})


@pytest.mark.parametrize(
    ("members", "refusal"),
    [
        ((rollout(),), Refusal.INCOMPLETE_GROUP),
        ((), Refusal.INCOMPLETE_GROUP),
        ((rollout(), rollout(sample=1, reward=None)), Refusal.UNSCORED),
        ((rollout(), rollout(turn(0, [1], [2], output_logprobs=None), sample=1)), Refusal.NO_LOGPROBS),
        ((rollout(), rollout(turn(0, [1], [2], prompt_token_ids=None), sample=1)), Refusal.TEXT_ONLY),
    ],
)
def test_a_group_with_a_member_that_is_not_to_be_learnt_from_makes_no_rows(
    members: tuple[Rollout, ...], refusal: Refusal
) -> None:
    good = Made((rollout(), rollout(sample=1, reward=0.0)))
    made = batch_rows([Made(members), good], "mean")
    assert [row.rollout.sample for row, _ in made.rows] == [0, 1]
    assert made.counts == {refusal: 1}


def test_a_part_of_a_group_will_do_where_that_is_asked() -> None:
    made = batch_rows([Made((rollout(), rollout(sample=1, reward=0.0)), size=3)], "mean", partial=True)
    assert [advantage for _, advantage in made.rows] == [0.5, -0.5]


def test_what_an_older_policy_sampled_is_masked_and_nothing_else_changes() -> None:
    (row,) = segments(partly_new())
    masked = mask_stale(row, version=4)
    assert (list(row.loss_mask), list(masked.loss_mask)) == ([0, 0, 0, 1, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0, 1])
    assert masked.model_copy(update={"loss_mask": row.loss_mask}) == row
    assert mask_stale(row, version=4, max_staleness=1) == row
    assert is_masked(mask_stale(row, version=5))


def test_a_token_of_unknown_version_counts_as_too_old() -> None:
    (row,) = segments(rollout(turn(0, [1, 2], [3], policy_version=None)))
    assert is_masked(mask_stale(row, version=0, max_staleness=100))


def test_rows_without_a_fresh_token_are_dropped_and_a_group_of_such_is_refused_as_stale() -> None:
    old = rollout(sample=1, reward=0.0)
    made = batch_rows([Made((partly_new(), old)), Made((old, old))], "mean", policy_version=4)
    assert [(row.response_mask, advantage) for row, advantage in made.rows] == [([0, 0, 0, 0, 1], 0.5)]
    assert made.counts == {Refusal.STALE: 1}
