"""The signal that ends a run early."""

from collections.abc import Callable

import anyio


class StopSignal:
    """Asks a run to start no new attempt; those in flight finish."""

    def __init__(self) -> None:
        self.is_set = False
        self.reason: str | None = None
        """Why the run stops, if the run itself decided to; else None."""
        self.is_put_off = False
        """Whether what is in flight is cut off without a record, because it is taken up again where it was."""
        self._event: anyio.Event | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._cut_off: list[Callable[[], None]] = []

    def set(self, reason: str | None = None) -> None:
        """Set the signal; the first call's reason stays."""
        if self.is_set:
            return
        self.is_set, self.reason = True, reason
        if self._event is not None:
            self._event.set()
        for callback in self._callbacks:
            callback()

    def put_off(self) -> None:
        """Set the signal, and cut off what is in flight: it is taken up again when the run is resumed."""
        self.set()
        self.is_put_off = True
        for callback in self._cut_off:
            callback()

    def on_put_off(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the run is put off."""
        self._cut_off.append(callback)

    def on_set(self, callback: Callable[[], None]) -> None:
        """Call `told` when the signal is set."""
        self._callbacks.append(callback)

    async def wait(self) -> None:
        """Wait until the signal is set."""
        if not self.is_set:
            self._event = self._event or anyio.Event()
            await self._event.wait()
