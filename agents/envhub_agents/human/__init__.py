"""`human`: a person at the terminal as the agent."""

from envhub_agents.human.agent import Human, HumanConfig

__all__ = ["Human", "HumanConfig"]
