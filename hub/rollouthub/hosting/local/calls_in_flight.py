"""The environment's code that runs for the agent: each call has a deadline, and the seal cancels all of them."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from rollouthub.limits import charged


class CallsInFlight:
    """The calls of one episode that have not ended."""

    __slots__ = ("_idle", "_scopes")

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._idle: anyio.Event | None = None

    @contextmanager
    def cancellable(self, seconds: float) -> Generator[None]:
        """Run the block until its deadline, or until `cancel`; leaving it that way raises no error."""
        scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._scopes.add(scope)
        try:
            with scope, charged(scope):
                yield
        finally:
            self._scopes.discard(scope)
            if self._idle is not None and not self._scopes:
                self._idle.set()

    async def cancel(self, seconds: float) -> bool:
        """Cancel all calls and wait at most `seconds` for their clean-up; False if it took longer."""
        for scope in tuple(self._scopes):
            scope.cancel()
        if not self._scopes:
            return True
        self._idle = self._idle or anyio.Event()
        with anyio.move_on_after(seconds, shield=True) as patience:
            await self._idle.wait()
        if not (patience.cancelled_caught and self._scopes):
            return True
        self._scopes.clear()  # given up on: no later step waits for them again
        return False
