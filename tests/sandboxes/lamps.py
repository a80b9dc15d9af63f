"""Things for a pool to start and end, made one step at a time."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from rollouthub_sandboxes.pool import WarmPool


class Lamp:
    """A thing to start and end; it holds a task group open, as a container's connection does."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number, self.is_alive = kind, number, True
        self.users = 0


class Factory:
    """Makes lamps, one step at a time where it is told to hold them back."""

    def __init__(self) -> None:
        self.lamps: list[Lamp] = []
        self.ended: list[Lamp] = []
        self.under_way = self.most_under_way = self.most_existing = 0
        self.gate, self.end_gate = anyio.Event(), anyio.Event()
        self.gate.set()
        self.end_gate.set()
        self.failures: list[Exception] = []
        self.end_error: Exception | None = None
        self.on_made: Callable[[], None] | None = None
        self._changed = anyio.Event()

    @asynccontextmanager
    async def make(self, kind: str) -> AsyncGenerator[Lamp]:
        async with anyio.create_task_group() as group:
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            self._tell()
            try:
                await self.gate.wait()
                if self.failures:
                    raise self.failures.pop()
            finally:
                self.under_way -= 1
            lamp = Lamp(kind, len(self.lamps))
            self.lamps.append(lamp)
            self.most_existing = max(self.most_existing, len(self.lamps) - len(self.ended))
            group.start_soon(anyio.sleep_forever)
            if self.on_made is not None:
                self.on_made()
            self._tell()
            try:
                yield lamp
            finally:
                with anyio.CancelScope(shield=True):
                    await self.end_gate.wait()
                lamp.is_alive = False
                self.ended.append(lamp)
                self._tell()
                group.cancel_scope.cancel()
                if self.end_error is not None:
                    raise self.end_error

    def pool(
        self,
        *,
        most: int = 8,
        parallel: int = 4,
        idle_seconds: float = 60.0,
        max_age_seconds: float = 600.0,
        make_seconds: float = 5.0,
        end_seconds: float = 5.0,
        close_seconds: float = 5.0,
    ) -> WarmPool[str, Lamp]:
        return WarmPool(
            self.make,
            is_alive=lambda lamp: lamp.is_alive,
            most=most,
            parallel=parallel,
            idle_seconds=idle_seconds,
            max_age_seconds=max_age_seconds,
            make_seconds=make_seconds,
            end_seconds=end_seconds,
            close_seconds=close_seconds,
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that only making and ending can bring about."""
        with anyio.fail_after(30):
            while not holds():
                await self._changed.wait()
            await anyio.wait_all_tasks_blocked()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
