"""ROLL: an agent runner and its environment manager, a Gym-style environment (GEM), and filters of groups.

ROLL and GEM name the classes by path, such as `rollouthub.trainers.roll.HubEnvManager`; those that derive from ROLL's
or GEM's classes are created on first access. Begin with `adapter.py`.
"""

from typing import Any

from rollouthub.trainers.roll.env_manager import env_manager
from rollouthub.trainers.roll.filter import HubGroupFilter, HubSpreadFilter
from rollouthub.trainers.roll.gym import gem_env
from rollouthub.trainers.roll.runner import agent_runner

__all__ = ["HubAgentRunner", "HubEnvManager", "HubGemEnv", "HubGroupFilter", "HubSpreadFilter"]  # pyright: ignore[reportUnsupportedDunderAll] by __getattr__

_MADE = {"HubAgentRunner": agent_runner, "HubEnvManager": env_manager, "HubGemEnv": gem_env}


def __getattr__(name: str) -> Any:
    """Create a class that derives from one of ROLL's or GEM's, on first access."""
    if name not in _MADE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _MADE[name]())
