"""What there is to play: a sample of a task, and who plays it under which rules."""

from dataclasses import dataclass

from envhub.limits import Deadlines, Limits
from envhub.protocols import Agent, EnvironmentHost, Model, Sampling, TaskCard
from envhub.rollout import AgentRef, EnvironmentRef, TaskRef


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays, and under which rules: the same for all attempts of one environment in a run."""

    run_id: str
    host: EnvironmentHost
    environment: EnvironmentRef
    agent: Agent
    agent_ref: AgentRef
    model: Model | None
    sampling: Sampling
    limits: Limits
    deadlines: Deadlines


@dataclass(frozen=True, slots=True)
class Item:
    """One sample to collect."""

    cast: Cast
    task: TaskCard
    task_ref: TaskRef
    group_id: str
    rollout_id: str
    sample: int
    seed: int
    policy_seed: int | None
