"""How a supply controls the inference servers while weights are updated."""

from typing import Literal, Protocol

InFlight = Literal["finish", "abort", "keep"]
"""What happens to model calls in flight when generation pauses: `finish` waits for their answers; `abort` cancels
them and repeats them afterwards; `keep` freezes them on the server, which continues the answer with the new
weights.
"""

Episodes = Literal["continue", "discard"]
"""What happens to episodes whose agent is at work when generation pauses: `continue` goes on with the new weights,
so a rollout may have tokens of several versions; `discard` cancels them and plays their samples again.
"""


class GenerationControl(Protocol):
    """Pauses and resumes inference servers that can be controlled; `VllmControl` does so for vLLM."""

    async def pause(self, in_flight: InFlight) -> None:
        """Stop generating.

        Raises:
            SupplyError: a server did not pause.
        """
        ...

    async def resume(self) -> None:
        """Generate again.

        Raises:
            SupplyError: a server did not resume.
        """
        ...

    async def updated(self, version: int) -> None:
        """New weights are in place: clear what was cached for the old ones, and set the new version.

        Raises:
            SupplyError: a server did not take the update.
        """
        ...
