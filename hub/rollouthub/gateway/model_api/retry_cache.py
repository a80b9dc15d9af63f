"""Answers for retried calls: a retry gets the answer of its first try, instead of a second turn."""

from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from rollouthub.generation import ModelReply

KEPT = 8
"""How many answers of one seat are kept for late retries."""


class PendingAnswer:
    """One call that is being answered."""

    def __init__(self) -> None:
        self.reply: ModelReply | None = None
        self._over: anyio.Event | None = None

    async def over(self) -> None:
        """Wait until the call has ended; the event is created here, because few calls are retried while they are in
        progress.
        """
        self._over = self._over or anyio.Event()
        await self._over.wait()

    def end(self) -> None:
        """Wake the retries that wait."""
        if self._over is not None:
            self._over.set()


class RetryCache:
    """The answered model calls of one seat, kept so that a repeated request gets the same answer.

    A client whose connection broke repeats a request that was answered already. If a header marks it as a retry, or the
    first answer could not be delivered, the same answer is sent again and no second turn is made.
    """

    def __init__(self) -> None:
        self._on_the_way: dict[bytes, PendingAnswer] = {}
        self._kept: OrderedDict[bytes, tuple[ModelReply, bool]] = OrderedDict()

    async def earlier(self, key: bytes, *, is_retry: bool) -> ModelReply | None:
        """The answer of an earlier try of this call, if any."""
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
        """Register a call while it is being answered; the caller sets `reply` once there is one."""
        pending = self._on_the_way[key] = PendingAnswer()
        try:
            yield pending
        finally:
            if self._on_the_way.get(key) is pending:
                del self._on_the_way[key]
            pending.end()

    def keep(self, key: bytes, reply: ModelReply, *, is_delivered: bool) -> None:
        """Keep an answer for a retry."""
        self._kept[key] = reply, is_delivered
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
