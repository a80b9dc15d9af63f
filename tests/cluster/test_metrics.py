"""The metrics of a run on a cluster: the driver's, and each worker's process beside it."""

from rollouthub.live.control.live_machines import Machines, machines
from rollouthub.telemetry.metrics.run_monitor import RunMonitor

from .conftest import Play, Watched


async def test_workers_tell_how_their_processes_stand_and_what_they_call(play: Play) -> None:
    seen = dict[str, int]()
    alive = set[int]()
    told = list[Machines]()

    def look(run: Watched) -> None:
        figures = RunMonitor(run.live, None).look()
        assert figures.pool is not None
        alive.add(figures.pool.workers_alive or 0)
        for snapshot in figures.processes[1:]:
            seen[snapshot.process] = max(seen.get(snapshot.process, 0), snapshot.lag.count)
        found = machines(run.live)
        if found.backends and found.backends[0].calls:
            told.append(found)

    await play(
        look, environments=("arithmetic",), model="mock/solver?latency=0.1", limit=200, concurrency=16, metrics="0"
    )
    assert max(alive) == 2
    assert len(seen) == 2
    assert all(name.startswith("worker-") for name in seen)
    assert max(seen.values()) > 0
    (backend,) = told[-1].backends
    assert (backend.role, backend.name, backend.state) == ("policy", "mock/solver?latency=0.1", "up")
    assert {worker.name for worker in told[0].staff} == {"worker 0", "worker 1"}
    assert 0 < sum(worker.done for worker in told[-1].staff) <= 200
