"""`hub bench latency`: how near one process comes to the rate that a slow model allows.

With so many episodes in flight and a model that takes so long, no client can be faster than episodes divided by the
time their model calls take. What is lost to that is the hub's own; the whole run counts, start and end included.
The run has a fresh process, the mock model server another.
"""

import json
import math
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rollouthub.bench.overhead import mock_server
from rollouthub.errors import HubError
from rollouthub.processes import PYTHON

CALLS_PER_ROLLOUT = 2
FEWEST_ROUNDS = 4
"""How often every place in flight is used at least: a run has one beginning."""
RATE_BAR = 0.9
LAG_BAR_MS = 50.0
START_SECONDS = 120


@dataclass(frozen=True)
class LatencyReport:
    """One run against a slow model."""

    concurrency: int
    latency_seconds: float
    rollouts: int
    seconds: float
    rate: float
    """Rollouts a second, from when the run could begin to its last commit."""
    possible_rate: float
    """Rollouts a second if the hub took no time at all."""
    lag_p50_ms: float
    """How late the event loop was, half the time."""
    lag_p99_ms: float
    lag_max_ms: float
    own_lag_p50_ms: float
    """The part of it in which this thread was at work; the rest it waited for a core, or for another thread."""
    own_lag_p99_ms: float
    own_lag_max_ms: float
    cpu_ms_per_rollout: float
    memory_mb: float
    """The most the process was resident in."""
    memory_kb_per_episode: float
    """What each episode in flight added to what the process was before."""

    @property
    def share(self) -> float:
        """The part of the possible rate that was reached."""
        return self.rate / self.possible_rate

    def as_json(self) -> dict[str, Any]:
        """As `hub bench latency --json` prints it."""
        bars = {"rate": self.share >= RATE_BAR, "lag": self.lag_p99_ms <= LAG_BAR_MS}
        return {**asdict(self), "share": round(self.share, 4), "within_bars": bars}


def measure_latency(
    concurrency: int, latency_seconds: float, rollouts: int, say: Callable[[str], None]
) -> LatencyReport:
    """Play at least so many rollouts against a mock model of that latency, the same number in every place in flight.

    Raises:
        HubError: the mock server or the run did not come up, or a rollout was not scored.
    """
    rounds = max(FEWEST_ROUNDS, math.ceil(rollouts / concurrency))
    count = rounds * concurrency
    ideal = rounds * CALLS_PER_ROLLOUT * latency_seconds
    say(f"{count:,} rollouts, {concurrency:,} in flight, {latency_seconds:g} s a call: {ideal:.0f} s at best …")
    with mock_server(f"mock/solver?latency={latency_seconds:g}") as url:
        command = [*PYTHON, "-m", "rollouthub.bench.latency_cell", url, str(concurrency), str(count)]
        limit = START_SECONDS + 3 * ideal
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            raise HubError(f"the run was not over after {limit:.0f} s, where {ideal:.0f} would do") from None
    if done.returncode:
        raise HubError(f"the run failed:\n{done.stderr[-2000:]}")
    figures = json.loads(done.stdout.splitlines()[-1])
    return LatencyReport(
        concurrency=concurrency,
        latency_seconds=latency_seconds,
        rollouts=count,
        rate=round(count / figures["seconds"], 2),
        possible_rate=concurrency / (CALLS_PER_ROLLOUT * latency_seconds),
        **figures,
    )
