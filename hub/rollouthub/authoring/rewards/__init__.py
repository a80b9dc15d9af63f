"""Rewards: what a verifier gives a submission, and what a trainer makes of a group of them."""

from rollouthub.authoring.rewards.advantages import GroupMethod, group_advantages, group_baseline, is_constant
from rollouthub.authoring.rewards.composite import WeightedReward, composite, product
from rollouthub.authoring.rewards.judge import Judge
from rollouthub.authoring.rewards.judge_verdict import Criterion
from rollouthub.authoring.rewards.reward_function import RewardFunction, as_score, binary
from rollouthub.authoring.rewards.routing import RewardBySource

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
