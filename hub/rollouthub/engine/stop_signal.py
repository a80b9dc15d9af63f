"""The signal that ends a run early."""

from collections.abc import Callable

import anyio


class StopSignal:
    """Asks a run to start nothing new; what is in flight finishes."""

    def __init__(self) -> None:
        self.is_set = False
        self.reason: str | None = None
        """Why, where the run itself asked."""
        self._event: anyio.Event | None = None
        self._told: list[Callable[[], None]] = []

    def set(self, reason: str | None = None) -> None:
        """Ask; the first reason stands."""
        if self.is_set:
            return
        self.is_set, self.reason = True, reason
        if self._event is not None:
            self._event.set()
        for told in self._told:
            told()

    def on_set(self, told: Callable[[], None]) -> None:
        """Also tell this one when it is set."""
        self._told.append(told)

    async def wait(self) -> None:
        """Until it is set."""
        if not self.is_set:
            self._event = self._event or anyio.Event()
            await self._event.wait()
