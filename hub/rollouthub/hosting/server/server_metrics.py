"""What the server counts, in Prometheus' text format."""

import os
from bisect import bisect_left
from collections import Counter
from pathlib import Path

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds of the histogram of tool calls, in seconds."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.opened = 0
        self.open = 0
        self.reaped = 0
        self.calls: Counter[str] = Counter()
        """Tool calls by outcome: ok, error, closed, cancelled, refused."""
        self.verdicts: Counter[str] = Counter()
        """Verdicts by outcome: scored, or the name of the error."""
        self._seconds = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def called(self, outcome: str, seconds: float) -> None:
        """A tool call ended."""
        self.calls[outcome] += 1
        self._seconds[bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def text(self) -> str:
        """Everything, in the exposition format."""
        lines = [
            *_metric("episodes_open", "gauge", "Episodes open now.", [("", self.open)]),
            *_metric("episodes_opened_total", "counter", "Episodes opened.", [("", self.opened)]),
            *_metric("episodes_reaped_total", "counter", "Episodes closed for their age.", [("", self.reaped)]),
            *_metric("tool_calls_total", "counter", "Tool calls by outcome.", _by("outcome", self.calls)),
            *_metric("verifications_total", "counter", "Verdicts by outcome.", _by("outcome", self.verdicts)),
            *self._histogram(),
            *_metric("process_resident_memory_bytes", "gauge", "Resident memory.", [("", _resident())], prefix=""),
        ]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        total, rows = 0, list[tuple[str, float]]()
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._seconds, strict=True):
            total += count
            rows.append((f'_bucket{{le="{bound}"}}', total))
        rows += [("_sum", round(self._sum, 6)), ("_count", total)]
        return _metric("tool_call_seconds", "histogram", "How long tool calls took.", rows)


def _metric(name: str, kind: str, note: str, rows: list[tuple[str, float]], prefix: str = "rollouthub_") -> list[str]:
    full = prefix + name
    return [f"# HELP {full} {note}", f"# TYPE {full} {kind}", *(f"{full}{label} {value}" for label, value in rows)]


def _by(label: str, counts: Counter[str]) -> list[tuple[str, float]]:
    return [(f'{{{label}="{value}"}}', count) for value, count in sorted(counts.items())]


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:  # no /proc
        return 0
