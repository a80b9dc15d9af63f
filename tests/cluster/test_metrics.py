"""The metrics of a run on a cluster: the driver's, and each worker's process beside it."""

from envhub.monitor.run_monitor import RunMonitor

from .conftest import Play, Watched


async def test_workers_tell_how_their_processes_stand(play: Play) -> None:
    seen = dict[str, int]()
    alive = set[int]()

    def look(run: Watched) -> None:
        figures = RunMonitor(run.live, None).look()
        assert figures.pool is not None
        alive.add(figures.pool.workers_alive or 0)
        for snapshot in figures.processes[1:]:
            seen[snapshot.process] = max(seen.get(snapshot.process, 0), snapshot.lag.count)

    await play(
        look, environments=("arithmetic",), model="mock/solver?latency=0.1", limit=200, concurrency=16, metrics="0"
    )
    assert max(alive) == 2
    assert len(seen) == 2
    assert all(name.startswith("worker-") for name in seen)
    assert max(seen.values()) > 0
