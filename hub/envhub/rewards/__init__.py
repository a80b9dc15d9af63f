"""Rewards: what a verifier gives a submission, and what a trainer makes of a group of them."""

from envhub.rewards.composite import WeightedReward, composite, product
from envhub.rewards.function import RewardFunction, as_score, binary
from envhub.rewards.groups import GroupMethod, group_advantages, group_baseline, is_constant
from envhub.rewards.judge import Judge
from envhub.rewards.routing import RewardBySource
from envhub.rewards.verdict import Criterion

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
