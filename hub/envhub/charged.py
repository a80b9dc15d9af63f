"""Deadlines that stand still while an image is built or fetched: that is charged to nobody's time."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

import anyio


class _Charged:
    """A scope whose deadline can stand still, for as long as anybody asks for it."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._pauses = 0
        self._since = self._left = 0.0

    def pause(self) -> None:
        self._pauses += 1
        if self._pauses == 1:
            self._since = anyio.current_time()
            self._left = self._scope.deadline - self._since
            self._scope.deadline = inf

    def go_on(self) -> None:
        self._pauses -= 1
        if self._pauses:
            return
        now = anyio.current_time()
        # Whoever gave it another deadline meanwhile did not know of the pause either.
        given = self._scope.deadline
        self._scope.deadline = now + self._left if given == inf else given + now - self._since


_running: ContextVar[tuple[_Charged, ...]] = ContextVar("envhub.charged", default=())


@contextmanager
def charged(scope: anyio.CancelScope) -> Generator[None]:
    """Let the deadline of an entered scope stand still while what is called within is `uncharged`."""
    token = _running.set((*_running.get(), _Charged(scope)))
    try:
        yield
    finally:
        _running.reset(token)


@contextmanager
def uncharged() -> Generator[None]:
    """What is done within has a bound of its own, and counts towards no deadline of an episode."""
    paused = _running.get()
    for each in paused:
        each.pause()
    try:
        yield
    finally:
        for each in paused:
            each.go_on()
