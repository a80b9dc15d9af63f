"""`hub bench latency`: the rollout rate of one process as a share of what a slow model allows.

No client can exceed the number of episodes in flight divided by the time of an episode's model calls. What is missing
to that rate is the hub's own time. The whole run counts, with its start and end. Run and mock model server have
separate fresh processes.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rollouthub.bench.cell import mock_server, run_cell

CALLS_PER_ROLLOUT = 2
FEWEST_ROUNDS = 4
"""The least number of episodes played one after the other in each slot, to outweigh the run's start."""
RATE_BAR = 0.9
LAG_BAR_MS = 50.0
START_SECONDS = 120


@dataclass(frozen=True)
class LatencyReport:
    """The figures of one run against a slow model."""

    concurrency: int
    latency_seconds: float
    rollouts: int
    seconds: float
    rate: float
    """Rollouts per second, from when the run was ready to play to its last commit."""
    possible_rate: float
    """Rollouts per second if the hub took no time at all."""
    lag_p50_ms: float
    """Median delay of the event loop, in milliseconds."""
    lag_p99_ms: float
    lag_max_ms: float
    own_lag_p50_ms: float
    """The part of the delay in which this thread used the CPU; in the rest it waited for a core or another thread."""
    own_lag_p99_ms: float
    own_lag_max_ms: float
    cpu_ms_per_rollout: float
    memory_mb: float
    """Peak resident memory of the process, in megabytes."""
    memory_kb_per_episode: float
    """Growth of resident memory since the run's start per episode in flight, in kilobytes."""

    @property
    def share(self) -> float:
        """Measured rate divided by possible rate."""
        return self.rate / self.possible_rate

    def as_json(self) -> dict[str, Any]:
        """The report as `hub bench latency --json` prints it."""
        bars = {"rate": self.share >= RATE_BAR, "lag": self.lag_p99_ms <= LAG_BAR_MS}
        return {**asdict(self), "share": round(self.share, 4), "within_bars": bars}


def measure_latency(
    concurrency: int, latency_seconds: float, rollouts: int, say: Callable[[str], None]
) -> LatencyReport:
    """Play at least `rollouts` rollouts against a mock model of that latency, equally many in every slot.

    Raises:
        HubError: the mock server or the run did not start, or a rollout was not scored.
    """
    rounds = max(FEWEST_ROUNDS, math.ceil(rollouts / concurrency))
    count = rounds * concurrency
    ideal = rounds * CALLS_PER_ROLLOUT * latency_seconds
    say(f"{count:,} rollouts, {concurrency:,} in flight, {latency_seconds:g} s a call: {ideal:.0f} s at best …")
    with mock_server(f"mock/solver?latency={latency_seconds:g}") as url:
        limit = START_SECONDS + 3 * ideal
        figures = run_cell("latency_cell", url, concurrency, count, what=f"the run of {ideal:.0f} s", seconds=limit)
    return LatencyReport(
        concurrency=concurrency,
        latency_seconds=latency_seconds,
        rollouts=count,
        rate=round(count / figures["seconds"], 2),
        possible_rate=concurrency / (CALLS_PER_ROLLOUT * latency_seconds),
        **figures,
    )
