"""Streaming supply for asynchronous training: scored rollouts, handed out as they come to a trainer that pulls."""

from envhub.errors import SupplyError
from envhub.supply.blocking import BlockingSupply, blocking
from envhub.supply.blocking_worker import BlockingWorker, blocking_worker
from envhub.supply.collecting import collect
from envhub.supply.control import Episodes, GenerationControl, InFlight
from envhub.supply.filters import GroupFilter, RewardBand, RewardSpread
from envhub.supply.group import RolloutGroup
from envhub.supply.rules import SupplyRules
from envhub.supply.stats import SupplyStats
from envhub.supply.supply import Supply
from envhub.supply.trusted import trusted
from envhub.supply.vllm import VllmControl
from envhub.supply.worker import RolloutWorker, Wanted, rollout_worker

__all__ = [
    "BlockingSupply",
    "BlockingWorker",
    "Episodes",
    "GenerationControl",
    "GroupFilter",
    "InFlight",
    "RewardBand",
    "RewardSpread",
    "RolloutGroup",
    "RolloutWorker",
    "Supply",
    "SupplyError",
    "SupplyRules",
    "SupplyStats",
    "VllmControl",
    "Wanted",
    "blocking",
    "blocking_worker",
    "collect",
    "rollout_worker",
    "trusted",
]
