"""`external`: somebody else's program as the agent, behind walls, with two URLs."""

from rollouthub_agents.external.agent import External
from rollouthub_agents.external.config import ExternalConfig

__all__ = ["External", "ExternalConfig"]
