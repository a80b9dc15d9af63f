"""What generates, as a supply steers it while weights change."""

from typing import Literal, Protocol

InFlight = Literal["finish", "abort", "keep"]
"""What becomes of model calls in flight when generation pauses: `finish` answers them first; `abort` breaks them off,
and they are asked again afterwards; `keep` freezes them where they are, to go on with other weights in mid-answer."""


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
