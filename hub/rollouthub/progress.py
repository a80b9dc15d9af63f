"""How far a tool call is: told by the environment, heard by whoever carries the call's result, if anybody is."""

import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[float, float | None, str | None], Awaitable[None]]
"""Is told how much is done, of how much, and a sentence."""

_listener: ContextVar[Listener | None] = ContextVar("rollouthub.progress", default=None)


@contextmanager
def heard_by(listener: Listener) -> Generator[None]:
    """Pass on what the tool calls made within report."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


async def report(done: float, total: float | None = None, message: str | None = None) -> None:
    """Say how far the tool call at hand is; a no-op where nobody asked.

    Raises:
        ValueError: a number is none.
    """
    if not math.isfinite(done) or not (total is None or math.isfinite(total)):
        raise ValueError(f"progress is told in numbers, not as {done!r} of {total!r}")
    listener = _listener.get()
    if listener is not None:
        await listener(done, total, message)
