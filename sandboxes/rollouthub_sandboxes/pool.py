"""A warm pool: starts slow things (containers) ahead of use, lends each once, and ends it in the background."""

import logging
import math
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Generic, TypeVar, cast

import anyio
import anyio.abc

from rollouthub.errors import SandboxError, first_error
from rollouthub_sandboxes.pool_statistics import PoolStatistics
from rollouthub_sandboxes.pool_stock import Held, KeyStock, Waiter

__all__ = ["PoolStatistics", "WarmPool"]

logger = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing")


class WarmPool(Generic[Key, Thing]):
    """Hands out started, unused things, each only once.

    One task of the pool holds each thing from its start to its end, so `make` may use task groups and cancel scopes.
    Waiting callers are served in order, before anything is started ahead. Use it as `async with pool:`.
    """

    def __init__(
        self,
        make: Callable[[Key], AbstractAsyncContextManager[Thing]],
        *,
        is_alive: Callable[[Thing], bool],
        most: int,
        most_warm: int = 16,
        parallel: int = 4,
        idle_seconds: float = 120.0,
        max_age_seconds: float = 1800.0,
        make_seconds: float = 300.0,
        end_seconds: float = 60.0,
        close_seconds: float = 60.0,
        describe: Callable[[Key], str] = lambda _: "a sandbox",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most` bounds the things that exist at a time, those being started or ended included; `most_warm` those kept
        ready for one key; `parallel` those being started. An unused thing is ended after `idle_seconds` without demand,
        or at an age of `max_age_seconds`. `make_seconds` and `end_seconds` bound one start and one end, `close_seconds`
        closing the pool.
        """
        self._make, self._is_alive, self._describe, self._clock = make, is_alive, describe, clock
        self._most, self._most_warm, self._parallel = most, most_warm, parallel
        self._idle_seconds, self._max_age_seconds = idle_seconds, max_age_seconds
        self._make_seconds, self._end_seconds, self._close_seconds = make_seconds, end_seconds, close_seconds
        self._stocks: dict[Key, KeyStock[Key, Thing]] = {}
        self._waiters: deque[Waiter[Key, Thing]] = deque()
        self._kept: dict[anyio.CancelScope, Held[Thing] | None] = {}
        """The cancel scope of each thing's task, with the thing; None while it is being started."""
        self._total = 0
        self._group: anyio.abc.TaskGroup | None = None
        self._wake, self._empty = anyio.Event(), anyio.Event()
        self._counts: Counter[str] = Counter()
        self._seconds_making = 0.0

    async def __aenter__(self) -> "WarmPool[Key, Thing]":
        group = anyio.create_task_group()
        await group.__aenter__()
        self._group = group
        group.start_soon(self._tend)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        group, self._group = self._group, None
        assert group is not None
        self._refuse_waiters()
        for scope, held in list(self._kept.items()):
            if held is None:
                scope.cancel()
            else:
                held.over.set()
        with anyio.move_on_after(self._close_seconds, shield=True):
            while self._total:
                self._empty = anyio.Event()
                await self._empty.wait()
        if self._total:
            logger.warning("%d sandboxes did not end within %g s", self._total, self._close_seconds)
        for scope in list(self._kept):
            scope.cancel()
        group.cancel_scope.cancel()
        return await group.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def acquire(self, key: Key) -> AsyncGenerator[Thing]:
        """A started thing that is unused; leaving the context returns at once, and the pool ends the thing.

        Raises:
            SandboxError: the pool is closed, or the thing was not ready in time; or `make` raised it.
        """
        held = await self._take(key)
        stock = self._stock(key)
        stock.live += 1
        try:
            yield held.thing
        finally:
            stock.live -= 1
            held.over.set()

    async def warm(self, key: Key, count: int) -> None:
        """Keep `count` things ready while the key is in use; returns once they are ready or the pool is full.

        Raises:
            Exception: whatever `make` raised.
        """
        stock = self._stock(key)
        stock.floor, stock.wanted_at, stock.retry_at = count, self._clock(), -math.inf
        before = stock.error
        self._plan()
        while len(stock.warm) < count and stock.making:
            await stock.changed.wait()
        if stock.error is not None and stock.error is not before:
            raise stock.error

    @property
    def statistics(self) -> PoolStatistics:
        """What the pool has done so far, and what it holds now."""
        counts = self._counts
        live = sum(stock.live for stock in self._stocks.values())
        warm = sum(len(stock.warm) for stock in self._stocks.values())
        making = self._making
        return PoolStatistics(
            acquired=counts["from_warm"] + counts["waited"],
            from_warm=counts["from_warm"],
            waited=counts["waited"],
            made=counts["made"],
            failed=counts["failed"],
            discarded=counts["discarded"],
            seconds_to_make=self._seconds_making / counts["made"] if counts["made"] else 0.0,
            live=live,
            warm=warm,
            making=making,
            ending=max(self._total - live - warm - making, 0),
        )

    @property
    def _making(self) -> int:
        return sum(stock.making for stock in self._stocks.values())

    def _stock(self, key: Key) -> KeyStock[Key, Thing]:
        stock = self._stocks.get(key)
        if stock is None:
            stock = self._stocks[key] = KeyStock[Key, Thing](key)
        return stock

    async def _take(self, key: Key) -> Held[Thing]:
        if self._group is None:
            raise SandboxError("a sandbox was asked of a pool that is closed; open one with `async with`")
        stock = self._stock(key)
        stock.take(self._clock(), self._idle_seconds)
        self._discard_dead(stock)
        if stock.warm:
            held = stock.warm.pop()
            self._counts["from_warm"] += 1
            self._plan()
            return held
        waiter = Waiter[Key, Thing](stock)
        stock.waiting += 1
        self._waiters.append(waiter)
        try:
            self._plan()
            await waiter.ready.wait()
        except BaseException:
            if waiter.held is not None:  # it came as the caller was cancelled: nobody has used it
                self._put(stock, waiter.held)
            raise
        finally:
            stock.waiting -= 1
            if not waiter.ready.is_set():
                self._waiters.remove(waiter)
        if waiter.error is not None:
            raise waiter.error
        assert waiter.held is not None
        self._counts["waited"] += 1
        return waiter.held

    async def _keep(self, stock: KeyStock[Key, Thing]) -> None:
        """Start one thing, wait until it is no longer wanted, and end it."""
        held: Held[Thing] | None = None
        started = self._clock()
        # Shielded: a cancelled caller of the pool still leaves through `__aexit__`, which ends this in good order.
        scope = anyio.CancelScope(deadline=anyio.current_time() + self._make_seconds, shield=True)
        self._kept[scope] = None
        try:
            with scope:
                async with self._make(stock.key) as thing:
                    if not self._is_alive(thing):
                        raise SandboxError(f"{self._describe(stock.key)} ended as soon as it was started")
                    scope.deadline = math.inf
                    held = self._kept[scope] = Held(thing, self._clock())
                    stock.making -= 1
                    stock.made(held.since - started)
                    self._counts["made"] += 1
                    self._seconds_making += held.since - started
                    self._put(stock, held)
                    await held.over.wait()
                    scope.deadline = anyio.current_time() + self._end_seconds
            if scope.cancelled_caught and self._group is not None:
                if held is None:
                    raise SandboxError(f"{self._describe(stock.key)} was not ready within {self._make_seconds:g} s")
                logger.warning("%s did not end within %g s", self._describe(stock.key), self._end_seconds)
        except Exception as error:
            if held is not None:
                logger.warning("%s did not end cleanly: %s", self._describe(stock.key), _shown(error))
            else:
                self._failed(stock, _shown(error))
        finally:
            if held is None:
                stock.making -= 1
            elif held in stock.warm:
                stock.warm.remove(held)
                self._counts["discarded"] += 1
            del self._kept[scope]
            self._total -= 1
            if not self._total:
                self._empty.set()
            stock.tell()
            self._plan()

    def _put(self, stock: KeyStock[Key, Thing], held: Held[Thing]) -> None:
        """Give a started thing to the caller who has waited longest for its key, or keep it warm."""
        if self._group is None:
            held.over.set()
            return
        waiter = self._first_waiter(stock)
        if waiter is None:
            stock.warm.append(held)
        else:
            waiter.held = held
            waiter.ready.set()
        stock.tell()
        self._wake.set()
        self._plan()

    def _failed(self, stock: KeyStock[Key, Thing], error: Exception) -> None:
        """Give the error to the caller who has waited longest; without one, log it. The stock waits before it tries
        again.
        """
        self._counts["failed"] += 1
        stock.failed(self._clock(), error)
        waiter = self._first_waiter(stock)
        if waiter is None:
            logger.warning("%s could not be made ready ahead: %s", self._describe(stock.key), error)
        else:
            waiter.error = error
            waiter.ready.set()
        self._wake.set()

    def _first_waiter(self, stock: KeyStock[Key, Thing]) -> Waiter[Key, Thing] | None:
        waiter = next((waiter for waiter in self._waiters if waiter.stock is stock), None)
        if waiter is not None:
            self._waiters.remove(waiter)
        return waiter

    def _refuse_waiters(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            waiter.error = SandboxError("the pool was closed while a sandbox was waited for")
            waiter.ready.set()

    def _discard_dead(self, stock: KeyStock[Key, Thing]) -> None:
        for held in [held for held in stock.warm if not self._is_alive(held.thing)]:
            stock.warm.remove(held)
            held.over.set()
            self._counts["discarded"] += 1

    def _plan(self) -> None:
        """Start what waiting callers need, then what should be ready ahead, within the pool's limits."""
        if self._group is None:
            return
        if self._serve_waiters(self._group):
            self._refill(self._group)

    def _serve_waiters(self, group: anyio.abc.TaskGroup) -> bool:
        """Start a thing for each waiting caller in order, ending other keys' warm things for room; True if none must
        wait for room.
        """
        coming = {key: stock.making for key, stock in self._stocks.items()}
        short = 0
        for waiter in self._waiters:
            key = waiter.stock.key
            if coming[key] > 0:
                coming[key] -= 1
            elif self._total >= self._most:
                short += 1
            elif self._making < self._parallel:
                self._start(group, waiter.stock)
            else:
                return False
        if short:
            going = len([held for held in self._kept.values() if held is not None and held.over.is_set()])
            self._evict(short - going)
        return not short

    def _evict(self, count: int) -> None:
        """End `count` warm things, those of the least recently wanted keys first."""
        for stock in sorted(self._stocks.values(), key=lambda stock: stock.wanted_at):
            while stock.warm and count > 0:
                stock.warm.pop(0).over.set()
                count -= 1

    def _refill(self, group: anyio.abc.TaskGroup) -> None:
        now = self._clock()
        for stock in sorted(self._stocks.values(), key=lambda stock: -stock.wanted_at):
            if now < stock.retry_at:
                continue
            self._discard_dead(stock)
            missing = stock.target(now, self._idle_seconds, self._most_warm) - len(stock.warm) - stock.making
            for _ in range(missing):
                if self._total >= self._most or self._making >= self._parallel:
                    return
                self._start(group, stock)

    def _start(self, group: anyio.abc.TaskGroup, stock: KeyStock[Key, Thing]) -> None:
        stock.making += 1
        self._total += 1
        group.start_soon(self._keep, stock)

    async def _tend(self) -> None:
        """Whenever it is time or something changed: end idle things, and retry failed starts."""
        while True:
            self._plan()
            delay = self._end_idle() - self._clock()
            with anyio.move_on_after(delay):
                await self._wake.wait()
            self._wake = anyio.Event()

    def _end_idle(self) -> float:
        """End warm things that are too many or too old; return the time at which to check again."""
        now, again = self._clock(), math.inf
        for stock in list(self._stocks.values()):
            target = stock.target(now, self._idle_seconds, self._most_warm)
            for held in list(stock.warm):
                idle_at, old_at = held.since + self._idle_seconds, held.since + self._max_age_seconds
                if now >= old_at or (now >= idle_at and len(stock.warm) > target):
                    stock.warm.remove(held)
                    held.over.set()
                else:
                    again = min(again, old_at, max(idle_at, stock.wanted_at + self._idle_seconds + 0.001))
            if stock.retry_at > now:
                again = min(again, stock.retry_at)
            if stock.is_bare and now - stock.wanted_at > self._idle_seconds:
                del self._stocks[stock.key]
        return again


def _shown(error: Exception) -> Exception:
    """The error that a thing's own task group wrapped, unwrapped."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    found = first_error(group)
    return found if isinstance(found, Exception) else group
