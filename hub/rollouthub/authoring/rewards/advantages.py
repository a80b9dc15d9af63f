"""Advantages within a group: how much better each sample of a task did than the others.

A member without a score (`None`) has no advantage and does not count in any baseline.
"""

import math
from collections.abc import Sequence
from typing import Literal

from rollouthub.authoring.rewards.reward_function import finite

GroupMethod = Literal["mean", "mean_std", "leave_one_out"]
"""`mean`: Dr. GRPO (arXiv:2503.20783). `mean_std`: GRPO (arXiv:2402.03300, 4.1). `leave_one_out`: RLOO
(arXiv:2402.14740)."""


def group_advantages(rewards: Sequence[float | None], method: GroupMethod, *, eps: float = 1e-6) -> list[float | None]:
    """Rewards [sample] of one task minus their baseline; `None` stays `None`.

    `mean_std` divides by the sample standard deviation (n - 1, as TRL and verl do) plus `eps`; `mean` does not, because
    the division gives more weight to tasks that are nearly always or nearly never solved. A group of equal rewards, or
    with a single scored member, has advantages of exactly 0 under every method.

    Raises:
        ValueError: a reward is not finite.
    """
    scored = _scored(rewards)
    if _all_equal(scored):
        return [None if reward is None else 0.0 for reward in rewards]
    mean, count = _mean(scored), len(scored)
    if method == "mean":
        factor = 1.0
    elif method == "leave_one_out":
        # r - (sum - r) / (n - 1), without the cancellation.
        factor = count / (count - 1)
    else:
        deviation = math.hypot(*(reward - mean for reward in scored)) / math.sqrt(count - 1)
        factor = 1.0 / (deviation + eps)
    return [None if reward is None else (reward - mean) * factor for reward in rewards]


def group_baseline(rewards: Sequence[float | None], method: GroupMethod) -> list[float | None]:
    """The baseline of each member: the mean of all scored members, or of all others under `leave_one_out`.

    A single scored member is its own baseline. `None` stays `None`.

    Raises:
        ValueError: a reward is not finite.
    """
    scored = _scored(rewards)
    if _all_equal(scored):
        return [None if reward is None else scored[0] for reward in rewards]
    mean, others = _mean(scored), len(scored) - 1
    if method == "leave_one_out":
        return [None if reward is None else mean - (reward - mean) / others for reward in rewards]
    return [None if reward is None else mean for reward in rewards]


def is_constant(rewards: Sequence[float | None]) -> bool:
    """Whether all scored members have the same reward (or fewer than two are scored): there is nothing to learn from
    them.

    Raises:
        ValueError: a reward is not finite.
    """
    return _all_equal(_scored(rewards))


def _scored(rewards: Sequence[float | None]) -> list[float]:
    return [finite(reward, f"reward {index}") for index, reward in enumerate(rewards) if reward is not None]


def _all_equal(scored: Sequence[float]) -> bool:
    return all(reward == scored[0] for reward in scored)


def _mean(scored: Sequence[float]) -> float:
    return math.fsum(reward / len(scored) for reward in scored)
