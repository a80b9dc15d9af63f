"""What a vLLM server counts: its `/metrics`, as far as it is shown."""

from dataclasses import dataclass

_GENERATED = "vllm:generation_tokens_total"
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
WINDOW_SECONDS = 10.0
"""Over which the rate of tokens is taken."""


@dataclass(frozen=True)
class VllmCounts:
    """One look at the counters; None where the server has no such one."""

    running: int | None = None
    waiting: int | None = None
    generated: float | None = None

    @property
    def in_flight(self) -> int | None:
        """Requests it has not answered."""
        return None if self.running is None else self.running + (self.waiting or 0)


def read_counts(text: str) -> VllmCounts:
    """The counters in Prometheus's text; those of several engines are added up."""
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
    """Tokens a second over the last while."""

    def __init__(self) -> None:
        self._looks: list[tuple[float, float]] = []

    def add(self, now: float, total: float | None) -> float | None:
        """Take a look into account; the rate, or None where there is none yet."""
        if total is None:
            return None
        if self._looks and total < self._looks[-1][1]:
            self._looks.clear()  # another process counts
        self._looks.append((now, total))
        while len(self._looks) > 2 and now - self._looks[1][0] >= WINDOW_SECONDS:
            self._looks.pop(0)
        (began, before), (ended, after) = self._looks[0], self._looks[-1]
        return (after - before) / (ended - began) if ended > began else None
