"""An attempt played by a worker, as the driver sees it."""

import time
from collections.abc import Callable, Sequence
from typing import Literal

from rollouthub.cluster.cluster_messages import AttemptCommand, AttemptState
from rollouthub.engine.agent_kind import why_no_interventions
from rollouthub.engine.recorder import OpenTurn
from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import QueuedAttempt
from rollouthub.limits import Limits
from rollouthub.store import LiveState
from rollouthub.store.run_facts import State as Phase

_AGENT_IS_GONE: Sequence[Phase] = ("verify", "close")


class RemoteNotes:
    """The counts that the worker last reported for an episode; it has no content of turns."""

    turns: Sequence[OpenTurn] = ()

    def __init__(self) -> None:
        self.turn_count = self.output_tokens = 0
        self.cost = self.model_seconds = self.tool_seconds = 0.0
        self._began = time.perf_counter()

    def now(self) -> float:
        """Seconds since the worker was given the attempt."""
        return time.perf_counter() - self._began


class RemoteAttempt:
    """One attempt while a worker plays it; commands are sent to the worker."""

    def __init__(self, work: QueuedAttempt, ask: Callable[[AttemptCommand], None]) -> None:
        self.sample: Sample = work.sample
        self.number = work.attempt
        self.state: Phase = "queued"
        self.limits = work.sample.context.limits
        self.recorder = RemoteNotes()
        self._ask = ask

    def update(self, state: AttemptState) -> None:
        """Take over the state that the worker reports."""
        self.state = state.state
        self.recorder.turn_count, self.recorder.output_tokens = state.turn, state.output_tokens
        self.recorder.cost = state.cost
        self.recorder.model_seconds, self.recorder.tool_seconds = state.model_seconds, state.tool_seconds

    def where(self) -> LiveState:
        """The attempt's state at the worker's last report."""
        notes = self.recorder
        return self.sample.live_state(self.number, self.state, notes.turn_count, notes.output_tokens)

    def cancel(self) -> bool:
        """Ask the worker to end the attempt unscored; returns False if it is too late. The worker's record decides."""
        return self._change("cancel", too_late=("close",))

    def interrupt(self) -> bool:
        """Ask the worker to stop the agent and score what it did; returns False if the agent has already ended."""
        return self._change("interrupt", too_late=_AGENT_IS_GONE)

    def retune(self, limits: Limits) -> None:
        """Ask the worker to apply other limits."""
        self.limits = limits
        self._ask(AttemptCommand(self.sample.rollout_id, "retune", limits.model_dump_json().encode()))

    @property
    def why_no_interventions(self) -> str | None:
        """Why no message can be sent to the agent; None if one can."""
        return why_no_interventions(self.sample.context)

    def intervene(self, text: str) -> bool:
        """Ask the worker to send the agent a message; returns False if the agent has already ended."""
        if self.state in _AGENT_IS_GONE:
            return False
        self._ask(AttemptCommand(self.sample.rollout_id, "tell", text=text))
        return True

    def _change(self, what: Literal["cancel", "interrupt"], *, too_late: Sequence[Phase]) -> bool:
        if self.state in too_late:
            return False
        self._ask(AttemptCommand(self.sample.rollout_id, what))
        return True
