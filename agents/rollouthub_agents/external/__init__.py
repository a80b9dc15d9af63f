"""`external`: runs a third-party program as the agent, sandboxed, with an MCP URL and a model URL."""

from rollouthub_agents.external.agent import External
from rollouthub_agents.external.config import ExternalConfig

__all__ = ["External", "ExternalConfig"]
