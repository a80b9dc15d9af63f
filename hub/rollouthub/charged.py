"""Deadlines that stand still while an image is built or fetched: that is charged to nobody's time."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

import anyio


class charged:
    """Let the deadline of an entered scope stand still while what is called within the block is `uncharged`."""

    __slots__ = ("_left", "_outer", "_pauses", "_scope", "_since", "_token")

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._pauses = 0

    def __enter__(self) -> None:
        self._outer = _running.get()
        self._token = _running.set(self)

    def __exit__(self, *_: object) -> None:
        _running.reset(self._token)

    def all(self) -> "Generator[charged]":
        """This and those around it."""
        yield self
        if self._outer is not None:
            yield from self._outer.all()

    def pause(self) -> None:
        """Let it stand still; somebody else may have asked for that already."""
        self._pauses += 1
        if self._pauses == 1:
            self._since = anyio.current_time()
            self._left = self._scope.deadline - self._since
            self._scope.deadline = inf

    def go_on(self) -> None:
        """Let it run on, once nobody asks for a pause any more."""
        self._pauses -= 1
        if self._pauses:
            return
        now = anyio.current_time()
        # Whoever gave it another deadline meanwhile did not know of the pause either.
        given = self._scope.deadline
        self._scope.deadline = now + self._left if given == inf else given + now - self._since


_running: ContextVar[charged | None] = ContextVar("rollouthub.charged", default=None)


@contextmanager
def uncharged() -> Generator[None]:
    """What is done within has a bound of its own, and counts towards no deadline of an episode."""
    innermost = _running.get()
    paused = () if innermost is None else tuple(innermost.all())
    for each in paused:
        each.pause()
    try:
        yield
    finally:
        for each in paused:
            each.go_on()
