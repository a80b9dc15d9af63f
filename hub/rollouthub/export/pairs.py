"""Choosing within a group: the best samples, pairs of a better and a worse one; always the same of the same."""

from collections.abc import Sequence
from typing import Literal

from rollouthub.rollout import Rollout

PairMethod = Literal["best_worst", "all"]


def ranked(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Best first; of equal rewards, the sample that was planned first."""
    return sorted(rollouts, key=lambda rollout: (-_reward(rollout), rollout.sample, rollout.attempt))


def best_of(rollouts: Sequence[Rollout], count: int) -> list[Rollout]:
    """The best samples of a group, best first."""
    return ranked(rollouts)[:count]


def pairs(
    rollouts: Sequence[Rollout], method: PairMethod = "best_worst", *, margin: float = 0.0, most: int | None = None
) -> list[tuple[Rollout, Rollout]]:
    """Pairs (better, worse) of one group whose rewards differ, and by no less than the margin.

    `best_worst` pairs the best with the worst, the second best with the second worst, and so on, each rollout once,
    one pair unless `most` allows more. `all` pairs every two, widest difference first.
    """
    order = ranked(rollouts)
    if method == "best_worst":
        found = [(order[place], order[-1 - place]) for place in range(len(order) // 2)]
        most = 1 if most is None else most
    else:
        found = [(better, worse) for place, better in enumerate(order) for worse in order[place + 1 :]]
        found.sort(key=lambda pair: _reward(pair[1]) - _reward(pair[0]))  # stable: ties stay in order
    found = [(better, worse) for better, worse in found if (gap := reward_gap(better, worse)) > 0 and gap >= margin]
    return found[:most]


def reward_gap(better: Rollout, worse: Rollout) -> float:
    """How much more the one was worth."""
    return _reward(better) - _reward(worse)


def _reward(rollout: Rollout) -> float:
    assert rollout.reward is not None
    return rollout.reward
