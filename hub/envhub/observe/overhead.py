"""`hub bench overhead`: CPU of a one-tool rollout, beside the floor of a bare client in the same run.

Every cell runs in a fresh process, warmed up first; what counts is that process's CPU. The mock model server is another
process and does not count. Floor and lane take turns, and the best of three is shown: on a shared machine the others
measure its neighbours.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from envhub.errors import HubError

REPETITIONS = 3
START_SECONDS = 30
CELL_SECONDS = 900
MEMORY_ROLLOUTS = 20_000
MEMORY_CONCURRENCY = 256


@dataclass(frozen=True)
class Row:
    """One cell of the table."""

    lane: str
    """`direct`, or `floor` for the bare loop."""
    concurrency: int
    cpu_ms_per_rollout: float
    rollouts_per_second: float
    rollouts: int


@dataclass(frozen=True)
class OverheadReport:
    """Everything measured in one go."""

    rows: list[Row]
    parts: dict[int, dict[str, float]]
    """Concurrency → part of a rollout → CPU milliseconds."""
    memory_growth_mb: float | None
    """Resident memory from 1,000 to 20,000 rollouts."""

    def as_json(self) -> dict[str, Any]:
        """As `hub bench overhead --json` prints it."""
        return asdict(self)


def measure_overhead(
    levels: Sequence[int], rollouts: int, *, with_memory: bool, say: Callable[[str], None]
) -> OverheadReport:
    """Measure the floor and the direct lane at each level of concurrency.

    Raises:
        HubError: the mock server or a cell did not come up.
    """
    rows: list[Row] = []
    parts: dict[int, dict[str, float]] = {}
    growth: float | None = None
    with _mock_server() as url:
        for level in levels:
            count = max(rollouts, level * 2)
            tries: dict[str, list[dict[str, float]]] = {"floor": [], "direct": []}
            for repetition in range(1, REPETITIONS + 1):
                say(f"{level} in flight, {count} rollouts, {repetition} of {REPETITIONS} …")
                for lane, results in tries.items():
                    results.append(_cell(lane, url, level, count))
            for lane, results in tries.items():
                best = min(results, key=lambda result: result["cpu_ms"])
                rows.append(Row(lane, level, best["cpu_ms"], best["per_second"], count))
            say(f"where the time goes at {level} in flight …")
            parts[level] = _cell("parts", url, level, count)
            rest = rows[-1].cpu_ms_per_rollout - sum(parts[level].values())
            parts[level]["scheduling, recording and the rest"] = round(rest, 4)
        if with_memory:
            say(f"memory over {MEMORY_ROLLOUTS} rollouts …")
            growth = _cell("memory", url, MEMORY_CONCURRENCY, MEMORY_ROLLOUTS)["growth_mb"]
    return OverheadReport(rows, parts, growth)


@contextmanager
def _mock_server() -> Generator[str]:
    """The instant model server in its own process; its address."""
    command = [sys.executable, "-c", "from envhub.cli.main import main; main()", "mock-server", "mock/solver"]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            address = re.search(r"http://\S+", line)
            if address is None:
                raise HubError(f"the mock server did not come up; it said {line!r}")
            yield address[0]
        finally:
            server.terminate()
            server.wait(START_SECONDS)


def _cell(lane: str, url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    command = [sys.executable, "-m", "envhub.observe.overhead_cell", lane, url, str(concurrency), str(rollouts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CELL_SECONDS, check=False)
    if done.returncode:
        raise HubError(f"the {lane} cell failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
