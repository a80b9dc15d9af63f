"""Reads the counters of a vLLM or SGLang server from its `/metrics`."""

from dataclasses import dataclass

_NAMES = {
    "vllm:generation_tokens_total": "generated",
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    # `sglang/srt/observability/metrics_collector.py` of SGLang 0.5.23; with --enable-metrics.
    "sglang:generation_tokens_total": "generated",
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "waiting",
}
"""Counter → field of `ServerCounts`."""
WINDOW_SECONDS = 10.0
"""Seconds over which the token rate is measured."""


@dataclass(frozen=True)
class ServerCounts:
    """One reading of requests running and waiting and of tokens generated; None where a counter is missing."""

    running: int | None = None
    waiting: int | None = None
    generated: float | None = None

    @property
    def in_flight(self) -> int | None:
        """Requests running or waiting; None if unknown."""
        return None if self.running is None else self.running + (self.waiting or 0)


def read_counts(text: str) -> ServerCounts:
    """Parse counters from Prometheus text; the values of several engines are added up."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        name = _NAMES.get(series.partition("{")[0])
        if name is not None:
            try:
                found[name] = found.get(name, 0.0) + float(value)
            except ValueError:
                continue
    running, waiting = found.get("running"), found.get("waiting")
    return ServerCounts(
        running=None if running is None else int(running),
        waiting=None if waiting is None else int(waiting),
        generated=found.get("generated"),
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
