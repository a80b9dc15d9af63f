"""Rewards: what a verifier gives a submission, and what a trainer makes of a group of them."""

from rollouthub.rewards.composite import WeightedReward, composite, product
from rollouthub.rewards.function import RewardFunction, as_score, binary
from rollouthub.rewards.groups import GroupMethod, group_advantages, group_baseline, is_constant
from rollouthub.rewards.judge import Judge
from rollouthub.rewards.routing import RewardBySource
from rollouthub.rewards.verdict import Criterion

__all__ = [
    "Criterion",
    "GroupMethod",
    "Judge",
    "RewardBySource",
    "RewardFunction",
    "WeightedReward",
    "as_score",
    "binary",
    "composite",
    "group_advantages",
    "group_baseline",
    "is_constant",
    "product",
]
