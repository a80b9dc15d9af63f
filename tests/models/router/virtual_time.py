"""An event loop whose clock leaps to the next timer when nothing else is left to do: minutes pass at once."""

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class _LeapingSelector(selectors.SelectSelector):
    """Waits for files alone; time it only counts."""

    def __init__(self) -> None:
        super().__init__()
        self.leapt = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout > 0:
            self.leapt += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at 0 and stands still while tasks run."""

    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        super().__init__(self._leaping)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._leaping.leapt


VIRTUAL: tuple[str, Mapping[str, Any]] = ("asyncio", {"loop_factory": VirtualLoop})
"""For a module's `anyio_backend` fixture."""
