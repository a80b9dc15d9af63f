"""An attempt that a worker plays, as the driver sees it."""

import time
from collections.abc import Callable, Sequence
from typing import Literal

from rollouthub.cluster.cluster_messages import AttemptCommand, AttemptState
from rollouthub.engine.agent_kind import why_deaf
from rollouthub.engine.recorder import OpenTurn
from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import QueuedAttempt
from rollouthub.limits import Limits
from rollouthub.store import LiveState
from rollouthub.store.run_facts import State as Phase

_AGENT_IS_GONE: Sequence[Phase] = ("verify", "close")


class DistantNotes:
    """What the worker last said of an episode: counts, and no content."""

    turns: Sequence[OpenTurn] = ()

    def __init__(self) -> None:
        self.turn_count = self.output_tokens = 0
        self.cost = self.model_seconds = self.tool_seconds = 0.0
        self._began = time.perf_counter()

    def now(self) -> float:
        """Seconds since the worker was given it."""
        return time.perf_counter() - self._began


class RemoteAttempt:
    """One attempt while a worker plays it."""

    def __init__(self, work: QueuedAttempt, ask: Callable[[AttemptCommand], None]) -> None:
        self.item: Sample = work.item
        self.number = work.attempt
        self.state: Phase = "queued"
        self.limits = work.item.cast.limits
        self.recorder = DistantNotes()
        self._ask = ask

    def told(self, state: AttemptState) -> None:
        """The worker says where it is."""
        self.state = state.state
        self.recorder.turn_count, self.recorder.output_tokens = state.turn, state.output_tokens
        self.recorder.cost = state.cost
        self.recorder.model_seconds, self.recorder.tool_seconds = state.model_seconds, state.tool_seconds

    def where(self) -> LiveState:
        """Where it was when the worker last said."""
        item, notes = self.item, self.recorder
        return LiveState(
            rollout_id=item.rollout_id,
            environment=item.cast.environment.name,
            task_id=item.task_ref.id,
            sample=item.sample,
            attempt=self.number,
            state=self.state,
            turn=notes.turn_count,
            output_tokens=notes.output_tokens,
            updated_at=time.time(),
        )

    def cancel(self) -> bool:
        """Ask its worker to end it, unscored; what is told by the worker last decides whether that is too late."""
        return self._change("cancel", too_late=("close",))

    def interrupt(self) -> bool:
        """Ask its worker to end the agent's time."""
        return self._change("interrupt", too_late=_AGENT_IS_GONE)

    def retune(self, limits: Limits) -> None:
        """Ask its worker to go on under other limits."""
        self.limits = limits
        self._ask(AttemptCommand(self.item.rollout_id, "retune", limits.model_dump_json().encode()))

    @property
    def deaf(self) -> str | None:
        """Why nothing can be said to its agent; None where something can."""
        return why_deaf(self.item.cast)

    def tell(self, text: str) -> bool:
        """Ask its worker to say something to the agent."""
        if self.state in _AGENT_IS_GONE:
            return False
        self._ask(AttemptCommand(self.item.rollout_id, "tell", text=text))
        return True

    def _change(self, what: Literal["cancel", "interrupt"], *, too_late: Sequence[Phase]) -> bool:
        if self.state in too_late:
            return False
        self._ask(AttemptCommand(self.item.rollout_id, what))
        return True
