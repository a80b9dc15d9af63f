"""What happens in an episode, step by step, for watching clients: a bounded history and what comes after it."""

import time
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

import anyio
from pydantic_core import to_json

HISTORY = 1000
"""Events kept; a watcher that comes later misses older ones, and sees it by their numbers."""


class EventLog:
    """One episode's events. It carries names, times and outcomes, never what a tool returned."""

    __slots__ = ("_count", "_events", "_is_over", "_news", "_watchers")

    def __init__(self) -> None:
        self._events: deque[tuple[int, float, str, dict[str, Any]]] | None = None
        """None before the first: an empty deque takes almost as much memory as one of 64."""
        self._count = 0
        self._is_over = False
        self._news: anyio.Event | None = None
        self._watchers = 0

    @property
    def is_watched(self) -> bool:
        """Whether a client waits for new events."""
        return self._watchers > 0

    def add(self, kind: str, **facts: Any) -> None:
        """Note something."""
        self._count += 1
        if self._events is None:
            self._events = deque(maxlen=HISTORY)
        self._events.append((self._count, time.time(), kind, facts))
        self._wake()

    def end(self) -> None:
        """There will be no more."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    async def since(self, number: int, keep_alive_seconds: float) -> AsyncGenerator[bytes]:
        """Server-sent events after event `number`: the kept ones, then new ones as they come, to the end.

        A comment goes out after every `keep_alive_seconds` of silence.
        """
        while True:
            fresh = [event for event in self._events or () if event[0] > number]
            if fresh:
                number = fresh[-1][0]
                yield b"".join(_written(*event) for event in fresh)
            elif self._is_over:
                return
            else:
                self._news = self._news or anyio.Event()
                self._watchers += 1
                try:
                    with anyio.move_on_after(keep_alive_seconds) as patience:
                        await self._news.wait()
                finally:
                    self._watchers -= 1
                if patience.cancelled_caught:
                    yield b": keep-alive\n\n"


def _written(number: int, at: float, kind: str, facts: dict[str, Any]) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), to_json({"at": at, **facts}))
