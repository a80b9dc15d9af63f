"""What generates, as a supply steers it while weights change."""

from typing import Literal, Protocol

InFlight = Literal["finish", "abort", "keep"]
"""What becomes of model calls in flight when generation pauses: `finish` answers them first; `abort` breaks them off,
and they are asked again afterwards; `keep` freezes them where they are, to go on with other weights in mid-answer."""

Episodes = Literal["continue", "discard"]
"""What becomes of episodes whose agent is in the middle of its work when generation pauses: `continue` goes on with the
new weights, so that a rollout may be of several versions; `discard` breaks them off, and plays their samples again."""


class GenerationControl(Protocol):
    """Steers the servers that generate, where they can be: `VllmControl` does so for vLLM."""

    async def pause(self, in_flight: InFlight) -> None:
        """Generate nothing more.

        Raises:
            SupplyError: a server did not.
        """
        ...

    async def resume(self) -> None:
        """Go on.

        Raises:
            SupplyError: a server did not.
        """
        ...

    async def updated(self, version: int) -> None:
        """Other weights are in place: forget what was computed with the old ones, and know the version.

        Raises:
            SupplyError: a server did not.
        """
        ...
