"""Streaming supply for asynchronous training: scored rollouts, handed out as they come to a trainer that pulls."""

from envhub.errors import SupplyError
from envhub.supply.blocking import BlockingSupply, blocking
from envhub.supply.collecting import collect
from envhub.supply.control import GenerationControl, InFlight
from envhub.supply.group import RolloutGroup
from envhub.supply.rules import SupplyRules
from envhub.supply.stats import SupplyStats
from envhub.supply.supply import Supply
from envhub.supply.vllm import VllmControl

__all__ = [
    "BlockingSupply",
    "GenerationControl",
    "InFlight",
    "RolloutGroup",
    "Supply",
    "SupplyError",
    "SupplyRules",
    "SupplyStats",
    "VllmControl",
    "blocking",
    "collect",
]
