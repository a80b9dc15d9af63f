"""`human`: a person at the terminal as the agent."""

from rollouthub_agents.human.agent import Human, HumanConfig

__all__ = ["Human", "HumanConfig"]
