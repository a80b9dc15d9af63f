"""Sums wall and CPU time over stretches of one kind of work."""

import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from rollouthub.bench.layer import Layer, LayerName
from rollouthub.statistics.quantiles import quantile
from rollouthub.telemetry.cpu import queued_seconds

Result = TypeVar("Result")


class Meter:
    """What some work took, of this process and of those that answer it."""

    def __init__(self, answering: Callable[[], float], pid: int | None = None) -> None:
        """`answering`: CPU seconds so far of the processes that answer; `pid`: the process, where it is only one."""
        self._answering, self._pid = answering, pid
        self.wall = self.cpu = self.queued = self.answered = self.answer_queued = 0.0
        self.operations: list[float] = []
        """Wall seconds of each."""

    @contextmanager
    def running(self) -> Generator[None]:
        """A stretch in which this work, and nothing else, is done."""
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
        """The part of the time it had a core for that who plays, or who answers, was at work; the larger of them."""
        own = self.cpu / max(self.wall - self.queued, 1e-9)
        return min(max(own, self.answered / max(self.wall - self.answer_queued, 1e-9)), 1.0)

    async def time(self, operation: Awaitable[Result]) -> Result:
        """One operation."""
        began = time.perf_counter()
        result = await operation
        self.operations.append(time.perf_counter() - began)
        return result

    def layer(
        self, layer: LayerName, work: str, per_rollout: float, *, without: "Meter | None" = None, has_wall: bool = True
    ) -> Layer:
        """The figures; `without` measured the same operations without this layer."""
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
