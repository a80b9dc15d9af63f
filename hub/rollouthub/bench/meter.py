"""Sums wall and CPU time over periods of one kind of work."""

import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from rollouthub.bench.layer import Layer, LayerName
from rollouthub.statistics.quantiles import quantile
from rollouthub.telemetry.cpu import queued_seconds

Result = TypeVar("Result")


class Meter:
    """Wall and CPU time of one kind of work, for this process and those that answer it."""

    def __init__(self, answering: Callable[[], float], pid: int | None = None) -> None:
        """`answering` returns the CPU seconds so far of the answering processes; `pid` is set if there is only one."""
        self._answering, self._pid = answering, pid
        self.wall = self.cpu = self.queued = self.answered = self.answer_queued = 0.0
        self.operations: list[float] = []
        """Wall seconds of each operation."""

    @contextmanager
    def running(self) -> Generator[None]:
        """Add up the times of the block, in which only this work must be done."""
        answered, queued, answer_queued = self._answering(), queued_seconds(), self._answer_queued()
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu
            self.queued += queued_seconds() - queued
            self.answered += self._answering() - answered
            self.answer_queued += self._answer_queued() - answer_queued

    def _answer_queued(self) -> float:
        return 0.0 if self._pid is None else queued_seconds(self._pid)

    @property
    def busy(self) -> float:
        """The larger share of the time with a core in which this process, or the answering one, used its CPU."""
        own = self.cpu / max(self.wall - self.queued, 1e-9)
        return min(max(own, self.answered / max(self.wall - self.answer_queued, 1e-9)), 1.0)

    async def time(self, operation: Awaitable[Result]) -> Result:
        """Measure the wall time of one operation, and return its result."""
        began = time.perf_counter()
        result = await operation
        self.operations.append(time.perf_counter() - began)
        return result

    def layer(
        self, layer: LayerName, work: str, per_rollout: float, *, without: "Meter | None" = None, has_wall: bool = True
    ) -> Layer:
        """The measurements as a `Layer`; `without` measured the same operations without this layer."""
        count = len(self.operations)
        ordered = sorted(self.operations)
        return Layer(
            layer=layer,
            work=work,
            per_rollout=round(per_rollout, 3),
            per_second=round(count / self.wall, 2),
            cpu_ms=round(self.cpu / count * 1000, 4),
            server_cpu_ms=round(self.answered / count * 1000, 4),
            p50_ms=round(quantile(ordered, 0.5) * 1000, 3) if has_wall else None,
            p95_ms=round(quantile(ordered, 0.95) * 1000, 3) if has_wall else None,
            busy=round(self.busy, 3),
            without_ms=0.0 if without is None else round(without.wall / len(without.operations) * 1000, 4),
        )
