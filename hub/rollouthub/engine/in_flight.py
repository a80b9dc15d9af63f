"""An attempt in flight, as those see it who watch or steer it: played in this process, or by a worker elsewhere."""

from collections.abc import Sequence
from typing import Protocol

from rollouthub.engine.recorder import OpenTurn
from rollouthub.engine.sample import Sample
from rollouthub.limits import Limits
from rollouthub.store import LiveState
from rollouthub.store.run_facts import State


class Notes(Protocol):
    """What is known of an episode so far."""

    @property
    def turns(self) -> Sequence[OpenTurn]:
        """The turns themselves; none where they are made elsewhere and only counted here."""
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
    def item(self) -> Sample: ...
    @property
    def number(self) -> int: ...
    @property
    def state(self) -> State: ...
    @property
    def limits(self) -> Limits:
        """Those in force."""
        ...

    @property
    def recorder(self) -> Notes: ...
    def where(self) -> LiveState: ...
    def cancel(self) -> bool:
        """End it now, unscored and recorded as cancelled; False where there is a verdict already."""
        ...

    def interrupt(self) -> bool:
        """End the agent's time now; what it has done is verified. False where its time is over already."""
        ...

    @property
    def deaf(self) -> str | None:
        """Why nothing can be said to its agent; None where something can."""
        ...

    def tell(self, text: str) -> bool:
        """Say something to its agent, as its user: what its model is about to say is cut short.

        Only where it is not deaf. False where its time is over already.
        """
        ...

    def retune(self, limits: Limits) -> None:
        """Go on under other limits."""
        ...
