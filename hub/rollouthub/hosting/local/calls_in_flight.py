"""The environment's code that runs for the agent: each call has a deadline, and the seal cancels all of them."""

from types import TracebackType

import anyio

from rollouthub.limits import charged


class CallsInFlight:
    """The calls of one episode that have not ended."""

    __slots__ = ("_idle", "_scopes")

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._idle: anyio.Event | None = None

    def cancellable(self, seconds: float) -> "CancellableCall":
        """Run the block until its deadline, or until `cancel`; leaving it that way raises no error."""
        return CancellableCall(self, anyio.move_on_after(seconds))

    def add(self, scope: anyio.CancelScope) -> None:
        """Note a call, which `cancel` cancels by this scope."""
        self._scopes.add(scope)

    def discard(self, scope: anyio.CancelScope) -> None:
        """Note that a call has ended."""
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


class CancellableCall:
    """The context of one call: a class, as a generator would cost each tool call more."""

    __slots__ = ("_calls", "_charged", "_scope")

    def __init__(self, calls: CallsInFlight, scope: anyio.CancelScope) -> None:
        self._calls, self._scope, self._charged = calls, scope, charged(scope)

    def __enter__(self) -> None:
        self._calls.add(self._scope)
        self._scope.__enter__()
        self._charged.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._charged.__exit__()
        try:
            return self._scope.__exit__(kind, error, trace)
        finally:
            self._calls.discard(self._scope)
