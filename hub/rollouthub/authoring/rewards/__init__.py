"""Rewards of submissions, and advantages within a group of them."""

from rollouthub.authoring.rewards.advantages import GroupMethod, group_advantages, group_baseline, is_constant
from rollouthub.authoring.rewards.bradley_terry import PairResult, bradley_terry, expected_shares
from rollouthub.authoring.rewards.composite import WeightedReward, composite, product
from rollouthub.authoring.rewards.credit_judge import CreditJudge
from rollouthub.authoring.rewards.judge import Judge
from rollouthub.authoring.rewards.judge_verdict import Criterion
from rollouthub.authoring.rewards.pairwise_judge import ComparedPair, PairwiseJudge
from rollouthub.authoring.rewards.rank_rewards import best_of_n, by_rank
from rollouthub.authoring.rewards.reward_function import RewardFunction, as_score, binary
from rollouthub.authoring.rewards.routing import RewardBySource
from rollouthub.authoring.rewards.tournament import Tournament

__all__ = [
    "ComparedPair",
    "CreditJudge",
    "Criterion",
    "GroupMethod",
    "Judge",
    "PairResult",
    "PairwiseJudge",
    "RewardBySource",
    "RewardFunction",
    "Tournament",
    "WeightedReward",
    "as_score",
    "best_of_n",
    "binary",
    "bradley_terry",
    "by_rank",
    "composite",
    "expected_shares",
    "group_advantages",
    "group_baseline",
    "is_constant",
    "product",
]
