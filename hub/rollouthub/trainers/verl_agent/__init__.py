"""verl-agent: its vectorised environment manager over episodes of the hub, and step rows of recorded rollouts."""

from rollouthub.trainers.verl_agent.manager import HubEnvironmentManager, make_envs
from rollouthub.trainers.verl_agent.observation import observation, project
from rollouthub.trainers.verl_agent.steps import step_rows

__all__ = ["HubEnvironmentManager", "make_envs", "observation", "project", "step_rows"]
