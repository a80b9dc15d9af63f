"""What the server counts, in Prometheus' text format."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds of the histogram of tool calls, in seconds."""


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

    def text(self) -> bytes:
        """Everything, and what the process uses, in the exposition format."""
        # Loaded for those who scrape: it takes longer than all else that a server has to do before its first episode.
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return generate_latest(registry)

    def collect(self) -> "Iterator[Metric]":
        """The metrics as Prometheus' client takes them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        yield GaugeMetricFamily("rollouthub_episodes_open", "Episodes open now.", self.open)
        yield CounterMetricFamily("rollouthub_episodes_opened_total", "Episodes opened.", self.opened)
        yield CounterMetricFamily("rollouthub_episodes_reaped_total", "Episodes closed for their age.", self.reaped)
        for name, note, counts in (
            ("rollouthub_tool_calls_total", "Tool calls by outcome.", self.calls),
            ("rollouthub_verifications_total", "Verdicts by outcome.", self.verdicts),
        ):
            family = CounterMetricFamily(name, note, labels=["outcome"])
            for outcome, count in sorted(counts.items()):
                family.add_metric([outcome], count)
            yield family
        buckets = list(zip((*map(str, BUCKETS), "+Inf"), accumulate(self._seconds), strict=True))
        note = "How long tool calls took."
        yield HistogramMetricFamily("rollouthub_tool_call_seconds", note, buckets, sum_value=self._sum)
