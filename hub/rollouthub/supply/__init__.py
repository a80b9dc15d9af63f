"""Streaming supply for asynchronous training: scored rollouts, handed out as they come to a trainer that pulls."""

from rollouthub.errors import SupplyError
from rollouthub.supply.blocking import BlockingSupply, blocking
from rollouthub.supply.blocking_worker import BlockingWorker, blocking_worker
from rollouthub.supply.collecting import collect
from rollouthub.supply.control import Episodes, GenerationControl, InFlight
from rollouthub.supply.filters import GroupFilter, RewardBand, RewardSpread
from rollouthub.supply.group import RolloutGroup
from rollouthub.supply.rules import SupplyRules
from rollouthub.supply.stats import SupplyStats
from rollouthub.supply.supply import Supply
from rollouthub.supply.trusted import trusted
from rollouthub.supply.vllm import VllmControl
from rollouthub.supply.worker import RolloutWorker, Wanted, rollout_worker

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
