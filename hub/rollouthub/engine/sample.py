"""What there is to play: a sample of a task, and who plays it under which rules."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from rollouthub.engine.seat import EpisodeSeat
from rollouthub.limits import Deadlines, Limits
from rollouthub.protocols import Agent, EnvironmentHost, EnvironmentInfo, Model, Sampling, SeatAddress, TaskCard
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef
from rollouthub.tracing import Tracer


class Exposing(Protocol):
    """What opens a seat to an agent outside, for the length of a context."""

    def expose(
        self, seat: EpisodeSeat, info: EnvironmentInfo, close_seconds: float
    ) -> AbstractAsyncContextManager[SeatAddress]: ...


@dataclass(frozen=True, slots=True)
class SampleContext:
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
    gateway: Exposing | None = None
    """Opens seats to agents outside; None where the run's agent is inside."""
    tracer: Tracer | None = None
    """None where the run is not traced."""
    tool_names: frozenset[str] = frozenset()
    """Of the environment, for traces."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample to collect."""

    cast: SampleContext
    task: TaskCard
    task_ref: TaskRef
    group_id: str
    rollout_id: str
    sample: int
    seed: int
    policy_seed: int | None
