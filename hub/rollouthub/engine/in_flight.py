"""An attempt in flight, as seen by those who watch or control it, whether this process or a worker plays it."""

from collections.abc import Sequence
from typing import Protocol

from rollouthub.engine.recorder import OpenTurn
from rollouthub.engine.sample import Sample
from rollouthub.limits import Limits
from rollouthub.store import LiveState
from rollouthub.store.run_facts import State


class Notes(Protocol):
    """What is recorded of an attempt so far."""

    @property
    def turns(self) -> Sequence[OpenTurn]:
        """The turns; empty if a worker plays the attempt and only the counts are known here."""
        ...

    @property
    def turn_count(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cost(self) -> float: ...
    @property
    def model_seconds(self) -> float: ...
    @property
    def tool_seconds(self) -> float: ...
    def now(self) -> float:
        """Seconds since the attempt started."""
        ...


class InFlight(Protocol):
    """One attempt while it runs."""

    @property
    def sample(self) -> Sample: ...
    @property
    def number(self) -> int: ...
    @property
    def state(self) -> State: ...
    @property
    def limits(self) -> Limits:
        """The limits in force now."""
        ...

    @property
    def recorder(self) -> Notes: ...
    def where(self) -> LiveState: ...
    def cancel(self) -> bool:
        """End the attempt now, unscored and recorded as cancelled; False if it already has its verdict."""
        ...

    def interrupt(self) -> bool:
        """End the agent phase now; what the agent did is verified. False if the phase is already over."""
        ...

    @property
    def why_no_interventions(self) -> str | None:
        """Why a person cannot send a message to its agents; None if at least one can receive it."""
        ...

    def intervene(self, text: str) -> bool:
        """Send a message to the agents as their user; model calls in flight are cut short and made again.

        Only if `why_no_interventions` is None. False if the agent phase is already over.
        """
        ...

    def retune(self, limits: Limits) -> None:
        """Replace the limits in force."""
        ...
