"""`hub bench overhead`: CPU of a rollout with one tool call, beside the floor of a bare client.

Every measurement runs in a fresh process after a warm-up, and only that process's CPU counts, not the mock model
server's. Floor and lanes alternate, and the best of three is shown, because other programs on a shared machine disturb
the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rollouthub.bench.cell import mock_server, run_cell
from rollouthub.errors import UnknownNameError

REPETITIONS = 3
LANES = {
    "floor": "a bare aiohttp loop: the same calls, a record, a commit",
    "direct": "the hub, environment in its process, calls on the direct lane",
    "served": "the same, environment in a process of its own (which counts), played over MCP",
    "two litellm calls": "two bare litellm.acompletion calls, nothing else",
    "litellm": "the hub, environment in its process, calls through litellm",
}
"""Lane → what it measures; each floor comes before the lanes that it is the floor of."""
LITELLM_MOST = 256
"""Most rollouts in flight for litellm's lanes: beyond it litellm's own calls take seconds each."""
MEMORY_ROLLOUTS = 20_000
MEMORY_CONCURRENCY = 256


@dataclass(frozen=True)
class OverheadRow:
    """One lane at one concurrency."""

    lane: str
    """A name of `LANES`."""
    concurrency: int
    cpu_ms_per_rollout: float
    rollouts_per_second: float
    rollouts: int


@dataclass(frozen=True)
class OverheadReport:
    """All measurements of `hub bench overhead`."""

    rows: list[OverheadRow]
    parts: dict[int, dict[str, float]]
    """Concurrency → part of a rollout → CPU milliseconds per rollout."""
    memory_growth_mb: float | None
    """Growth of resident memory from 1,000 to 20,000 rollouts, in megabytes; None if not measured."""

    def as_json(self) -> dict[str, Any]:
        """The report as `hub bench overhead --json` prints it."""
        return asdict(self)


def measure_overhead(
    levels: Sequence[int],
    rollouts: int,
    *,
    lanes: Sequence[str] = tuple(LANES),
    with_memory: bool,
    say: Callable[[str], None],
) -> OverheadReport:
    """Measure lanes and their floors at each level of concurrency.

    Raises:
        UnknownNameError: a lane is unknown.
        HubError: the mock server or a measuring process did not start.
    """
    for lane in lanes:
        if lane not in LANES:
            raise UnknownNameError("lane", lane, LANES)
    rows: list[OverheadRow] = []
    parts: dict[int, dict[str, float]] = {}
    growth: float | None = None
    with mock_server() as url:
        for level in levels:
            count = max(rollouts, level * 2)
            counts = {
                lane: max(count // 3, level) if "litellm" in lane else count
                for lane in lanes
                if level <= LITELLM_MOST or "litellm" not in lane
            }
            tries: dict[str, list[dict[str, float]]] = {lane: [] for lane in counts}
            for repetition in range(1, REPETITIONS + 1):
                say(f"{level} in flight, {count} rollouts, {repetition} of {REPETITIONS} …")
                for lane, results in tries.items():
                    results.append(_cell(lane, url, level, counts[lane]))
            best = {lane: min(results, key=lambda result: result["cpu_ms"]) for lane, results in tries.items()}
            rows += [
                OverheadRow(lane, level, result["cpu_ms"], result["per_second"], counts[lane])
                for lane, result in best.items()
            ]
            if "direct" in best:
                say(f"where the time goes at {level} in flight …")
                parts[level] = _cell("parts", url, level, count)
                rest = best["direct"]["cpu_ms"] - sum(parts[level].values())
                parts[level]["scheduling, recording and the rest"] = round(rest, 4)
        if with_memory:
            say(f"memory over {MEMORY_ROLLOUTS} rollouts …")
            growth = _cell("memory", url, MEMORY_CONCURRENCY, MEMORY_ROLLOUTS)["growth_mb"]
    return OverheadReport(rows, parts, growth)


def _cell(lane: str, url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    return run_cell("overhead_cell", lane, url, concurrency, rollouts, what=f"the {lane} cell")
