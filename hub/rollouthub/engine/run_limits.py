"""Limits on a whole run's cost, tokens and time, compared with what its records used."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from rollouthub.engine.pool_options import RunLimits
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.rollout import Rollout
from rollouthub.score import ModelCall
from rollouthub.settings import duration

logger = logging.getLogger(__name__)

WARNED_AT = (0.8, 0.95)
"""Shares of a limit at which a warning is logged, once each."""


@dataclass
class Used:
    """The cost and tokens in a run's records, of all its models."""

    cost: float = 0.0
    """US dollars; calls of unknown price count as 0."""
    tokens: int = 0
    """Prompt and output tokens."""

    def add(self, rollout: Rollout) -> None:
        """Add an attempt: its turns, and the model calls of its environment, including judges."""
        for turn in rollout.turns:
            self.cost += turn.cost or 0.0
            self.tokens += turn.usage.prompt_tokens + turn.usage.output_tokens
        self.ask(rollout.role_calls)
        if rollout.score is not None:
            self.ask(rollout.score.judge_calls)

    def ask(self, calls: Iterable[ModelCall]) -> None:
        """Add model calls that an environment made."""
        for call in calls:
            self.cost += call.cost or 0.0
            self.tokens += call.prompt_tokens + call.output_tokens


class RunBounds:
    """Sets a run's stop signal when a limit is reached, and logs warnings before that.

    Independent of how episodes are played: it gets each record when the record is handed to the store and again when it
    is durable, and a function that cancels the attempts in flight.
    """

    def __init__(
        self,
        limits: RunLimits,
        stop: StopSignal,
        cancel: Callable[[], None],
    ) -> None:
        """`cancel` cancels the attempts in flight."""
        self.used = Used()
        """The cost and tokens counted so far."""
        self._on_their_way: set[tuple[str, int]] = set()
        """(rollout id, attempt) of records that are counted and not yet durable."""
        self._limits, self._stop, self._cancel = limits, stop, cancel
        self._warned: dict[str, float] = {}
        self._is_over = False

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator[None]:
        """Apply the limits inside this context, in which the episodes are played."""
        self._look()
        if self._limits.max_seconds is None:
            try:
                yield
            finally:
                self._is_over = True
            return
        async with anyio.create_task_group() as watching:
            watching.start_soon(self._watch_the_clock, self._limits.max_seconds)
            try:
                yield
            finally:
                self._is_over = True
                watching.cancel_scope.cancel()

    def came_in(self, rollout: Rollout) -> None:
        """Count a record that is handed to the store; the same record handed over again before it is durable counts
        once.
        """
        key = rollout.rollout_id, rollout.attempt
        if key not in self._on_their_way:
            self._on_their_way.add(key)
            self.used.add(rollout)
            self._look()

    def asked(self, calls: Iterable[ModelCall]) -> None:
        """Count the model calls of a verdict on a group."""
        self.used.ask(calls)
        self._look()

    def committed(self, rollouts: Iterable[Rollout]) -> None:
        """Note that these records are now durable."""
        for rollout in rollouts:
            self._on_their_way.discard((rollout.rollout_id, rollout.attempt))

    def _look(self) -> None:
        limits, used = self._limits, self.used
        if limits.max_cost is not None:
            self._judge("cost", used.cost, limits.max_cost, _dollars)
        if limits.max_tokens is not None:
            self._judge("tokens", used.tokens, limits.max_tokens, _tokens)

    async def _watch_the_clock(self, seconds: float) -> None:
        started = anyio.current_time()
        for share in (*WARNED_AT, 1.0):
            await anyio.sleep_until(started + share * seconds)
            self._judge("seconds", share * seconds, seconds, duration)

    def _judge(self, name: str, used: float, limit: float, shown: Callable[[float], str]) -> None:
        if self._is_over or self._stop.is_set:
            return
        if used >= limit:
            reason = f"the run's limit of {shown(limit)} is reached"
            if name != "seconds":
                reason += f" ({shown(used)} used)"
            more = "goes on, for as long again" if name == "seconds" else f"with a higher --run-{name} goes on"
            self._stop.set(f"{reason}; --resume {more}")
            if self._limits.ending == "cancel":
                self._cancel()
            return
        reached = max((share for share in WARNED_AT if used >= share * limit), default=0.0)
        if reached > self._warned.get(name, 0.0):
            self._warned[name] = reached
            logger.warning("%.0f %% of the run's limit of %s is used up", 100 * reached, shown(limit))


def _dollars(amount: float) -> str:
    return f"${amount:.6g}"


def _tokens(count: float) -> str:
    return f"{count:,.0f} tokens"
