"""A run over several processes, as its driver sees it."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from rollouthub.engine.pool import Sink
from rollouthub.engine.run_control import LiveRun, RunFacts, RunParts
from rollouthub.engine.sample import Sample
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import Retrying
from rollouthub.store import open_writer
from rollouthub.telemetry.metrics.process_figures import ProcessSnapshot, decode, encode
from rollouthub.telemetry.metrics.process_snapshot import take_snapshot
from rollouthub.telemetry.metrics.run_monitor import RunMonitor
from tests.telemetry.collectors import Silent
from tests.telemetry.records import record


class Crew:
    """A pool of which one worker of two lives, and has sent word."""

    concurrency, workers, workers_alive = 8, 2, 1
    is_held, in_flight, undecided = False, 0, ()

    def hold(self, is_held: bool) -> None:
        """Not here."""

    def retry(self, rollout_id: str) -> Retrying:
        """Not here."""
        return "over"

    def resize(self, concurrency: int) -> None:
        """Not here."""

    async def play(self, items: AsyncIterator[Sample], sink: Sink) -> None:
        """Not here."""

    @property
    def snapshots(self) -> Sequence[ProcessSnapshot]:
        """As it came over the wire."""
        return [decode(encode(take_snapshot("worker-1")))]


async def test_workers_are_shown_beside_the_driver(tmp_path: Path) -> None:
    live, silent = LiveRun(StopSignal()), Silent()
    monitor = RunMonitor(live, silent)
    assert monitor.look().pool is not None  # before the run begins there is just nothing in it
    async with open_writer(tmp_path, resolved={}, given="", resume=False, on_commit=monitor.committed) as writer:
        live.parts = RunParts({}, (), writer, Crew())
        live.begin(RunFacts("r", tmp_path, ("sums",), "agent", None, 4), live.parts.pool)
        monitor.started("r", 4, 0, 0)
        await writer.add(record())
        await writer.flush()
        figures = monitor.look()
    assert [process.process for process in figures.processes] == ["hub", "worker-1"]
    assert figures.pool is not None
    assert (figures.pool.concurrency, figures.pool.workers, figures.pool.workers_alive) == (8, 2, 1)
    assert figures.store is not None
    assert (figures.store.records, figures.tally.records, len(silent.rollouts)) == (1, 1, 1)
    monitor.committed([record()])
    assert figures.tally.records == 1  # what was looked at stays as it was
