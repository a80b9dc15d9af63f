"""Limits of an episode, which end the agent phase and let it be scored, and deadlines, whose passing means a failure.

Deadlines are paused while an image is built or fetched.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Annotated

import anyio
from pydantic import Field

from rollouthub.settings import FILE_ONLY, Option, time_option
from rollouthub.values import Frozen


class Limits(Frozen):
    """Limits on what the agent may use. At a limit the agent stops, and the episode is scored; None is no limit."""

    max_turns: int | None = Field(
        default=None, ge=1, description="Maximum number of model responses of one seat in an episode."
    )
    max_tokens: Annotated[int | None, Option("--max-total-tokens")] = Field(
        default=None, ge=1, description="Maximum number of output tokens of a whole episode."
    )
    max_response_tokens: Annotated[int | None, FILE_ONLY] = Field(
        default=None,
        ge=1,
        description="Maximum number of output tokens of one response; sent to the model as its own limit.",
    )
    max_seconds: Annotated[float | None, time_option("--max-seconds")] = Field(
        default=None, gt=0, description="Maximum seconds that the agent may take."
    )
    max_cost: float | None = Field(
        default=None,
        gt=0,
        description="Maximum cost in US dollars of an episode's model calls, where a price is known.",
    )

    def or_else(self, fallback: "Limits") -> "Limits":
        """These limits, with the fallback's in place of those that are None."""
        return fallback.model_copy(update=self.model_dump(exclude_none=True))


DEFAULT_LIMITS = Limits(max_turns=50)


class Deadlines(Frozen):
    """Seconds each stage may take before it counts as failed; every wait has one."""

    setup: Annotated[float, time_option("--setup-timeout")] = Field(
        default=120.0, gt=0, description="Maximum seconds for setting an episode up."
    )
    model_call: Annotated[float, time_option("--model-timeout")] = Field(
        default=600.0, gt=0, description="Maximum seconds for one call of a model."
    )
    tool_call: Annotated[float, time_option("--tool-timeout")] = Field(
        default=120.0, gt=0, description="Maximum seconds for one call of a tool."
    )
    agent: Annotated[float, time_option("--agent-timeout")] = Field(
        default=3600.0,
        gt=0,
        description="Maximum seconds for all that the agent does; past it, the agent has failed.",
    )
    verify: Annotated[float, time_option("--verify-timeout")] = Field(
        default=300.0, gt=0, description="Maximum seconds for scoring an episode."
    )
    close: Annotated[float, time_option("--close-timeout")] = Field(
        default=30.0, gt=0, description="Maximum seconds for closing an episode."
    )
    episode: Annotated[float, time_option("--episode-timeout")] = Field(
        default=5400.0,
        gt=0,
        description="Maximum seconds for a whole episode; by default 90 min, or the sum of its stages if that is more.",
    )

    def or_else(self, fallback: "Deadlines") -> "Deadlines":
        """These deadlines, with the fallback's for those that were not given. Unless given, the episode's deadline
        is at least the sum of its stages'.
        """
        found = fallback.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})
        stages = found.setup + found.agent + found.verify + found.close
        if "episode" in self.model_fields_set or stages <= found.episode:
            return found
        return found.model_copy(update={"episode": stages})


class charged:
    """Pauses the deadline of an entered scope while code inside the block runs under `uncharged`."""

    __slots__ = ("_left", "_outer", "_pauses", "_scope", "_since", "_token")

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._pauses = 0

    def __enter__(self) -> None:
        self._outer = _running.get()
        self._token = _running.set(self)

    def __exit__(self, *_: object) -> None:
        _running.reset(self._token)

    def all(self) -> "Generator[charged]":
        """This `charged` and all enclosing ones."""
        yield self
        if self._outer is not None:
            yield from self._outer.all()

    def pause(self) -> None:
        """Pause the deadline; pauses may be nested."""
        self._pauses += 1
        if self._pauses == 1:
            self._since = anyio.current_time()
            self._left = self._scope.deadline - self._since
            self._scope.deadline = inf

    def go_on(self) -> None:
        """End one pause; the deadline runs on after the last."""
        self._pauses -= 1
        if self._pauses:
            return
        now = anyio.current_time()
        # Whoever gave it another deadline meanwhile did not know of the pause either.
        given = self._scope.deadline
        self._scope.deadline = now + self._left if given == inf else given + now - self._since


_running: ContextVar[charged | None] = ContextVar("rollouthub.limits", default=None)


@contextmanager
def uncharged() -> Generator[None]:
    """Pause all episode deadlines around this block; code in it must have its own time limit."""
    innermost = _running.get()
    paused = () if innermost is None else tuple(innermost.all())
    for each in paused:
        each.pause()
    try:
        yield
    finally:
        for each in paused:
            each.go_on()
