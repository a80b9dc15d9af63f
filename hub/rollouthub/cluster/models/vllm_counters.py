"""Reads the counters of a vLLM server from its `/metrics`."""

from dataclasses import dataclass

_GENERATED = "vllm:generation_tokens_total"
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
WINDOW_SECONDS = 10.0
"""Seconds over which the token rate is measured."""


@dataclass(frozen=True)
class VllmCounts:
    """One reading of requests running and waiting and of tokens generated; None where a counter is missing."""

    running: int | None = None
    waiting: int | None = None
    generated: float | None = None

    @property
    def in_flight(self) -> int | None:
        """Requests running or waiting; None if unknown."""
        return None if self.running is None else self.running + (self.waiting or 0)


def read_counts(text: str) -> VllmCounts:
    """Parse counters from Prometheus text; the values of several engines are added up."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("vllm:"):
            continue
        series, _, value = line.rpartition(" ")
        name = series.partition("{")[0]
        if name in (_GENERATED, _RUNNING, _WAITING):
            try:
                found[name] = found.get(name, 0.0) + float(value)
            except ValueError:
                continue
    running, waiting = found.get(_RUNNING), found.get(_WAITING)
    return VllmCounts(
        running=None if running is None else int(running),
        waiting=None if waiting is None else int(waiting),
        generated=found.get(_GENERATED),
    )


class Rate:
    """Generated tokens per second over the last `WINDOW_SECONDS`."""

    def __init__(self) -> None:
        self._looks: list[tuple[float, float]] = []

    def add(self, now: float, total: float | None) -> float | None:
        """Add a reading, made at `now` seconds; returns tokens per second, or None until there are two readings."""
        if total is None:
            return None
        if self._looks and total < self._looks[-1][1]:
            self._looks.clear()  # another process counts
        self._looks.append((now, total))
        while len(self._looks) > 2 and now - self._looks[1][0] >= WINDOW_SECONDS:
            self._looks.pop(0)
        (began, before), (ended, after) = self._looks[0], self._looks[-1]
        return (after - before) / (ended - began) if ended > began else None
