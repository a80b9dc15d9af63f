"""Answers and those who wait for them: a call that is tried again gets the answer its first try led to."""

from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from rollouthub.protocols import ModelReply

KEPT = 8
"""Answers of one seat that a late retry can still have."""


class PendingAnswer:
    """One call on its way to an answer."""

    def __init__(self) -> None:
        self.reply: ModelReply | None = None
        self._over: anyio.Event | None = None

    async def over(self) -> None:
        """Wait for its end; few calls are tried again while they are on their way."""
        self._over = self._over or anyio.Event()
        await self._over.wait()

    def end(self) -> None:
        """Tell those who wait."""
        if self._over is not None:
            self._over.set()


class Deliveries:
    """The calls of one seat, by what they ask for.

    A client whose connection broke asks again for what was answered already. Official clients count their retries in a
    header; then, or where an answer could not be handed over, the same answer is given and no second turn is made.
    """

    def __init__(self) -> None:
        self._on_the_way: dict[bytes, PendingAnswer] = {}
        self._kept: OrderedDict[bytes, tuple[ModelReply, bool]] = OrderedDict()

    async def earlier(self, key: bytes, *, is_retry: bool) -> ModelReply | None:
        """The answer that an earlier try of this call led to, if any."""
        while is_retry and (on_the_way := self._on_the_way.get(key)) is not None:
            await on_the_way.over()
            if on_the_way.reply is not None:
                return on_the_way.reply
        kept = self._kept.get(key)
        if kept is None or not (is_retry or not kept[1]):
            return None
        return kept[0]

    @contextmanager
    def on_the_way(self, key: bytes) -> Generator[PendingAnswer]:
        """Held while a call is answered; its `reply` is set once there is one."""
        delivery = self._on_the_way[key] = PendingAnswer()
        try:
            yield delivery
        finally:
            if self._on_the_way.get(key) is delivery:
                del self._on_the_way[key]
            delivery.end()

    def keep(self, key: bytes, reply: ModelReply, *, is_delivered: bool) -> None:
        """Keep an answer for a retry."""
        self._kept[key] = reply, is_delivered
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
