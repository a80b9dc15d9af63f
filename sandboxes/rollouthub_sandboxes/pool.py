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
from rollouthub_sandboxes.pool_stock import Held, Shelf, Waiter

__all__ = ["PoolStatistics", "WarmPool"]

logger = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing")


class WarmPool(Generic[Key, Thing]):
    """Hands out started, never used things, and never the same one twice.

    Each thing lives in one task of the pool, from its start to its end, so `make` may use task groups and cancel
    scopes. Waiters are served in the order they came, before anything is made ahead. Use it as `async with pool:`.
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
        """`most` things at one time, those being started and ended included; `most_warm` of one key ready ahead,
        `parallel` being started. What nobody wants for `idle_seconds`, or is older than `max_age_seconds`, is ended.
        `make_seconds` and `end_seconds` bound a start and an end, `close_seconds` the end of the whole pool.
        """
        self._make, self._is_alive, self._describe, self._clock = make, is_alive, describe, clock
        self._most, self._most_warm, self._parallel = most, most_warm, parallel
        self._idle_seconds, self._max_age_seconds = idle_seconds, max_age_seconds
        self._make_seconds, self._end_seconds, self._close_seconds = make_seconds, end_seconds, close_seconds
        self._shelves: dict[Key, Shelf[Key, Thing]] = {}
        self._waiters: deque[Waiter[Key, Thing]] = deque()
        self._kept: dict[anyio.CancelScope, Held[Thing] | None] = {}
        """One for each task: None while its thing is being made."""
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
        """A started thing that nobody had before; leaving returns at once and the pool ends it.

        Raises:
            SandboxError: the pool is closed, or the thing was not ready in time; else whatever `make` raised.
        """
        held = await self._take(key)
        shelf = self._shelf(key)
        shelf.live += 1
        try:
            yield held.thing
        finally:
            shelf.live -= 1
            held.over.set()

    async def warm(self, key: Key, count: int) -> None:
        """Have so many ready ahead, as long as the key is wanted; returns when they are, or when there is no room.

        Raises:
            Exception: whatever `make` raised.
        """
        shelf = self._shelf(key)
        shelf.floor, shelf.wanted_at, shelf.retry_at = count, self._clock(), -math.inf
        before = shelf.error
        self._plan()
        while len(shelf.warm) < count and shelf.making:
            await shelf.changed.wait()
        if shelf.error is not None and shelf.error is not before:
            raise shelf.error

    @property
    def statistics(self) -> PoolStatistics:
        """What it has done and what it holds."""
        counts = self._counts
        live = sum(shelf.live for shelf in self._shelves.values())
        warm = sum(len(shelf.warm) for shelf in self._shelves.values())
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
        return sum(shelf.making for shelf in self._shelves.values())

    def _shelf(self, key: Key) -> Shelf[Key, Thing]:
        shelf = self._shelves.get(key)
        if shelf is None:
            shelf = self._shelves[key] = Shelf[Key, Thing](key)
        return shelf

    async def _take(self, key: Key) -> Held[Thing]:
        if self._group is None:
            raise SandboxError("a sandbox was asked of a pool that is closed; open one with `async with`")
        shelf = self._shelf(key)
        shelf.take(self._clock(), self._idle_seconds)
        self._discard_dead(shelf)
        if shelf.warm:
            held = shelf.warm.pop()
            self._counts["from_warm"] += 1
            self._plan()
            return held
        waiter = Waiter[Key, Thing](shelf)
        shelf.waiting += 1
        self._waiters.append(waiter)
        try:
            self._plan()
            await waiter.ready.wait()
        except BaseException:
            if waiter.held is not None:  # it came as the caller was cancelled: nobody has used it
                self._put(shelf, waiter.held)
            raise
        finally:
            shelf.waiting -= 1
            if not waiter.ready.is_set():
                self._waiters.remove(waiter)
        if waiter.error is not None:
            raise waiter.error
        assert waiter.held is not None
        self._counts["waited"] += 1
        return waiter.held

    async def _keep(self, shelf: Shelf[Key, Thing]) -> None:
        """One thing from its start to its end."""
        held: Held[Thing] | None = None
        started = self._clock()
        # Shielded: a cancelled caller of the pool still leaves through `__aexit__`, which ends this in good order.
        scope = anyio.CancelScope(deadline=anyio.current_time() + self._make_seconds, shield=True)
        self._kept[scope] = None
        try:
            with scope:
                async with self._make(shelf.key) as thing:
                    if not self._is_alive(thing):
                        raise SandboxError(f"{self._describe(shelf.key)} ended as soon as it was started")
                    scope.deadline = math.inf
                    held = self._kept[scope] = Held(thing, self._clock())
                    shelf.making -= 1
                    shelf.made(held.since - started)
                    self._counts["made"] += 1
                    self._seconds_making += held.since - started
                    self._put(shelf, held)
                    await held.over.wait()
                    scope.deadline = anyio.current_time() + self._end_seconds
            if scope.cancelled_caught and self._group is not None:
                if held is None:
                    raise SandboxError(f"{self._describe(shelf.key)} was not ready within {self._make_seconds:g} s")
                logger.warning("%s did not end within %g s", self._describe(shelf.key), self._end_seconds)
        except Exception as error:
            if held is not None:
                logger.warning("%s did not end cleanly: %s", self._describe(shelf.key), _shown(error))
            else:
                self._failed(shelf, _shown(error))
        finally:
            if held is None:
                shelf.making -= 1
            elif held in shelf.warm:
                shelf.warm.remove(held)
                self._counts["discarded"] += 1
            del self._kept[scope]
            self._total -= 1
            if not self._total:
                self._empty.set()
            shelf.tell()
            self._plan()

    def _put(self, shelf: Shelf[Key, Thing], held: Held[Thing]) -> None:
        """Give a thing to whoever has waited longest for its kind, or keep it warm."""
        if self._group is None:
            held.over.set()
            return
        waiter = self._first_waiter(shelf)
        if waiter is None:
            shelf.warm.append(held)
        else:
            waiter.held = held
            waiter.ready.set()
        shelf.tell()
        self._wake.set()
        self._plan()

    def _failed(self, shelf: Shelf[Key, Thing], error: Exception) -> None:
        """Give the error to whoever has waited longest, or keep it for the next one and try again later."""
        self._counts["failed"] += 1
        shelf.failed(self._clock(), error)
        waiter = self._first_waiter(shelf)
        if waiter is None:
            logger.warning("%s could not be made ready ahead: %s", self._describe(shelf.key), error)
        else:
            waiter.error = error
            waiter.ready.set()
        self._wake.set()

    def _first_waiter(self, shelf: Shelf[Key, Thing]) -> Waiter[Key, Thing] | None:
        waiter = next((waiter for waiter in self._waiters if waiter.shelf is shelf), None)
        if waiter is not None:
            self._waiters.remove(waiter)
        return waiter

    def _refuse_waiters(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            waiter.error = SandboxError("the pool was closed while a sandbox was waited for")
            waiter.ready.set()

    def _discard_dead(self, shelf: Shelf[Key, Thing]) -> None:
        for held in [held for held in shelf.warm if not self._is_alive(held.thing)]:
            shelf.warm.remove(held)
            held.over.set()
            self._counts["discarded"] += 1

    def _plan(self) -> None:
        """Start what waiters need, then what should be ready ahead, as far as there is room."""
        if self._group is None:
            return
        if self._serve_waiters(self._group):
            self._refill(self._group)

    def _serve_waiters(self, group: anyio.abc.TaskGroup) -> bool:
        """Have one made for each waiter, in their order, ending others' warm ones for room; whether all are seen to."""
        coming = {key: shelf.making for key, shelf in self._shelves.items()}
        short = 0
        for waiter in self._waiters:
            key = waiter.shelf.key
            if coming[key] > 0:
                coming[key] -= 1
            elif self._total >= self._most:
                short += 1
            elif self._making < self._parallel:
                self._start(group, waiter.shelf)
            else:
                return False
        if short:
            going = len([held for held in self._kept.values() if held is not None and held.over.is_set()])
            self._evict(short - going)
        return not short

    def _evict(self, count: int) -> None:
        """End warm things, those of the least wanted keys first."""
        for shelf in sorted(self._shelves.values(), key=lambda shelf: shelf.wanted_at):
            while shelf.warm and count > 0:
                shelf.warm.pop(0).over.set()
                count -= 1

    def _refill(self, group: anyio.abc.TaskGroup) -> None:
        now = self._clock()
        for shelf in sorted(self._shelves.values(), key=lambda shelf: -shelf.wanted_at):
            if now < shelf.retry_at:
                continue
            self._discard_dead(shelf)
            missing = shelf.target(now, self._idle_seconds, self._most_warm) - len(shelf.warm) - shelf.making
            for _ in range(missing):
                if self._total >= self._most or self._making >= self._parallel:
                    return
                self._start(group, shelf)

    def _start(self, group: anyio.abc.TaskGroup, shelf: Shelf[Key, Thing]) -> None:
        shelf.making += 1
        self._total += 1
        group.start_soon(self._keep, shelf)

    async def _tend(self) -> None:
        """End what nobody wants, and try again what failed, when the time has come."""
        while True:
            self._plan()
            delay = self._end_idle() - self._clock()
            with anyio.move_on_after(delay):
                await self._wake.wait()
            self._wake = anyio.Event()

    def _end_idle(self) -> float:
        """End warm things that are too many or too old; when to look again."""
        now, again = self._clock(), math.inf
        for shelf in list(self._shelves.values()):
            target = shelf.target(now, self._idle_seconds, self._most_warm)
            for held in list(shelf.warm):
                idle_at, old_at = held.since + self._idle_seconds, held.since + self._max_age_seconds
                if now >= old_at or (now >= idle_at and len(shelf.warm) > target):
                    shelf.warm.remove(held)
                    held.over.set()
                else:
                    again = min(again, old_at, max(idle_at, shelf.wanted_at + self._idle_seconds + 0.001))
            if shelf.retry_at > now:
                again = min(again, shelf.retry_at)
            if shelf.is_bare and now - shelf.wanted_at > self._idle_seconds:
                del self._shelves[shelf.key]
        return again


def _shown(error: Exception) -> Exception:
    """What a thing's own task group wrapped."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    found = first_error(group)
    return found if isinstance(found, Exception) else group
