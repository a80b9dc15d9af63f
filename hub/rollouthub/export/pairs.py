"""Selection within a group: the best samples, and pairs of a better and a worse one; deterministic."""

from collections.abc import Sequence
from typing import Literal

from rollouthub.rollout import Rollout

PairMethod = Literal["best_worst", "all"]


def earned(rollout: Rollout, seat: str | None = None) -> float | None:
    """A seat's reward, or without a seat the rollout's; None if unscored."""
    return rollout.reward if seat is None else rollout.reward_of(seat)


def ranked(rollouts: Sequence[Rollout], seat: str | None = None) -> list[Rollout]:
    """Rollouts by reward, best first (the seat's reward if one is named); equal ones in the order of their samples."""
    return sorted(rollouts, key=lambda rollout: (-_reward(rollout, seat), rollout.sample, rollout.attempt))


def best_of(rollouts: Sequence[Rollout], count: int, seat: str | None = None) -> list[Rollout]:
    """The best `count` rollouts of a group, best first (by the seat's reward if one is named)."""
    return ranked(rollouts, seat)[:count]


def pairs(
    rollouts: Sequence[Rollout],
    method: PairMethod = "best_worst",
    *,
    margin: float = 0.0,
    most: int | None = None,
    seat: str | None = None,
) -> list[tuple[Rollout, Rollout]]:
    """Pairs (better, worse) of one group whose rewards differ by at least the margin, and by more than 0.

    Rewards are the seat's, if one is named.

    `best_worst` pairs the best with the worst, the second best with the second worst, and so on, each rollout once;
    only one pair unless `most` allows more. `all` pairs every two, those with the largest difference first.
    """
    order = ranked(rollouts, seat)
    if method == "best_worst":
        found = [(order[place], order[-1 - place]) for place in range(len(order) // 2)]
        most = 1 if most is None else most
    else:
        found = [(better, worse) for place, better in enumerate(order) for worse in order[place + 1 :]]
        found.sort(key=lambda pair: -reward_gap(*pair, seat))  # stable: ties stay in order
    found = [
        (better, worse) for better, worse in found if (gap := reward_gap(better, worse, seat)) > 0 and gap >= margin
    ]
    return found[:most]


def reward_gap(better: Rollout, worse: Rollout, seat: str | None = None) -> float:
    """The difference of two rollouts' rewards (the seat's, if one is named)."""
    return _reward(better, seat) - _reward(worse, seat)


def _reward(rollout: Rollout, seat: str | None) -> float:
    reward = earned(rollout, seat)
    assert reward is not None
    return reward
