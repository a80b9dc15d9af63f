"""An event that takes next to no memory until somebody waits for it."""

import anyio


class LazyEvent:
    """An `anyio.Event` made by the first who waits: idle episodes hold many, and one takes almost a kilobyte."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        self._is_set = False

    def set(self) -> None:
        """Set the event, and wake all who wait."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    def is_set(self) -> bool:
        """Whether the event is set."""
        return self._is_set

    async def wait(self) -> None:
        """Wait until the event is set."""
        if self._event is None:
            self._event = anyio.Event()
            if self._is_set:
                self._event.set()
        await self._event.wait()
