"""A sample of a task, and who plays it under which limits. `OpenPlan` makes samples."""

import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from rollouthub.engine.opponent_pool import OpponentPool
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.generation import Model, Sampling
from rollouthub.limits import Deadlines, Limits
from rollouthub.protocols import Agent, EnvironmentHost, EnvironmentInfo, SeatAddress, TaskCard
from rollouthub.rollout import AgentRef, EnvironmentRef, SeatRef, TaskRef
from rollouthub.store.run_facts import LiveState, State
from rollouthub.tracing import Tracer


class Exposing(Protocol):
    """Opens a seat to an external agent, inside a context."""

    def expose(
        self, seat: EpisodeSeat, info: EnvironmentInfo, close_seconds: float
    ) -> AbstractAsyncContextManager[SeatAddress]: ...


@dataclass(frozen=True, slots=True)
class SeatPlayer:
    """The player of one seat, if it differs from the run's."""

    agent: Agent
    agent_ref: AgentRef
    model: Model | None
    sampling: Sampling
    version: int | None = None
    """The policy version that the model is, if it is a pool's."""
    pool: OpponentPool | None = None
    """The models of which one is drawn for each group; None if `model` plays all."""

    @property
    def ref(self) -> SeatRef:
        """The player, for the record."""
        return SeatRef(
            agent=self.agent_ref, model=None if self.model is None else self.model.name, version=self.version
        )

    def for_group(self, group_id: str, seed: int) -> "SeatPlayer":
        """The player of a group's samples: with the opponent that is drawn for them, if the seat has a pool."""
        if self.pool is None:
            return self
        drawn = self.pool.draw(group_id, seed)
        return replace(self, model=drawn.model, version=drawn.version, pool=None)


@dataclass(frozen=True, slots=True)
class SampleContext:
    """The players, limits and environment that all samples of one environment in a run share."""

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
    """Opens seats to external agents; None if the run has none."""
    tracer: Tracer | None = None
    """The tracer; None if the run is not traced."""
    tool_names: frozenset[str] = frozenset()
    """Names of the environment's tools, for traces."""
    seats: Mapping[str, SeatPlayer] = field(default_factory=dict[str, SeatPlayer])
    """Seat → its own player; other seats are played by `agent` and `model`."""

    def player(self, seat: str) -> "SeatPlayer | SampleContext":
        """The player of a seat: its own, or this context, which has the run's agent and model."""
        return self.seats.get(seat, self)


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a task, to be played."""

    context: SampleContext
    task: TaskCard
    task_ref: TaskRef
    group_id: str
    rollout_id: str
    index: int
    seed: int
    policy_seed: int | None
    group_size: int = 1
    """Number of samples in its group."""

    def player(self, seat: str) -> SeatPlayer | SampleContext:
        """The player of a seat in this sample's group: the seat's own, or the context with the run's."""
        player = self.context.player(seat)
        return player.for_group(self.group_id, self.seed) if isinstance(player, SeatPlayer) else player

    @property
    def seat_refs(self) -> dict[str, SeatRef]:
        """The seats with players of their own, for the record."""
        return {seat: player.for_group(self.group_id, self.seed).ref for seat, player in self.context.seats.items()}

    def live_state(self, attempt: int, state: State, turn: int, output_tokens: int) -> LiveState:
        """The stage and counts of an attempt at this sample, in the form that the store saves."""
        return LiveState(
            rollout_id=self.rollout_id,
            environment=self.context.environment.name,
            task_id=self.task_ref.id,
            sample=self.index,
            attempt=attempt,
            state=state,
            turn=turn,
            output_tokens=output_tokens,
            updated_at=time.time(),
        )
