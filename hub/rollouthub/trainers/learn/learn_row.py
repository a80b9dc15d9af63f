"""`LearnRow`: the columns of a training row that the learner needs, and the rows of groups with their advantages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rollouthub.export.batch import BatchRows, ExportGroup, batch_rows
from rollouthub.export.training_row import TrainingRow
from rollouthub.rollout import Rollout
from rollouthub.trainers.learn.learn_settings import LearnSettings


@dataclass(frozen=True, slots=True)
class LearnRow:
    """One sequence: arrays of equal length [token], picklable, so that a leader can send it to other ranks."""

    token_ids: Sequence[int]
    mask: Sequence[int]
    """1 on tokens to learn from."""
    logprobs: Sequence[float]
    """The engine's log-probability of each masked token; anything elsewhere."""
    advantage: float = 1.0
    weight: float = 1.0
    """Share of a trajectory: the rows of one that forked add up to 1."""

    @property
    def learnt(self) -> int:
        """Number of tokens to learn from; the first token of a sequence is predicted by nothing."""
        return sum(self.mask[1:])


def learn_row(row: TrainingRow, advantage: float) -> LearnRow:
    """The learner's columns of a training row."""
    segment = row.segment
    return LearnRow(list(segment.token_ids), list(segment.loss_mask), list(segment.logprobs), advantage, row.weight)


def learning_rows(
    groups: Iterable[ExportGroup],
    settings: LearnSettings,
    *,
    policy_version: int | None = None,
    max_staleness: int = 0,
) -> BatchRows:
    """The training rows of groups with the advantages that the settings ask for; groups that cannot be learnt from are
    refused whole, with the reason.

    With a `policy_version`, tokens more than `max_staleness` versions older are masked.
    """

    def reward_of(rollout: Rollout, seat: str) -> float | None:
        return shaped_reward(rollout, seat, settings)

    made = batch_rows(
        groups,
        settings.advantages,
        policy_version=policy_version,
        max_staleness=max_staleness,
        reward_of=reward_of,
    )
    if not settings.skip_truncated:
        return made
    return BatchRows([(row, advantage) for row, advantage in made.rows if not row.is_truncated], made.refused)


def shaped_reward(rollout: Rollout, seat: str, settings: LearnSettings) -> float | None:
    """A seat's reward less DAPO's overlong penalty (arXiv:2503.14476, 3.4), from 0 at `max_tokens - overlong_tokens`
    sampled tokens to 1 at `max_tokens`; None if it is not scored.
    """
    reward = rollout.reward_of(seat)
    if reward is None or not settings.overlong_tokens or settings.max_tokens is None:
        return reward
    sampled = sum(len(turn.output_token_ids or ()) for turn in rollout.turns if turn.agent == seat)
    beyond = sampled - (settings.max_tokens - settings.overlong_tokens)
    return reward - min(max(beyond / settings.overlong_tokens, 0.0), 1.0)
