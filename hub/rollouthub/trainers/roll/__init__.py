"""ROLL: an agent runner, a Gym-style environment (GEM), and filters of groups.

    agent_runner_cls: rollouthub.trainers.roll.HubAgentRunner
    group_filter_cls: rollouthub.trainers.roll.HubGroupFilter
    gem.register("rollouthub", entry_point="rollouthub.trainers.roll:HubGemEnv")

The classes derive from ROLL's and GEM's own, and are made when they are first looked up.
"""

from typing import Any

from rollouthub.trainers.roll.filter import HubGroupFilter, HubSpreadFilter
from rollouthub.trainers.roll.gym import gem_env
from rollouthub.trainers.roll.runner import agent_runner

__all__ = ["HubAgentRunner", "HubGemEnv", "HubGroupFilter", "HubSpreadFilter"]  # pyright: ignore[reportUnsupportedDunderAll] by __getattr__

_MADE = {"HubAgentRunner": agent_runner, "HubGemEnv": gem_env}


def __getattr__(name: str) -> Any:
    """A class that derives from one of ROLL's or GEM's."""
    if name not in _MADE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _MADE[name]())
