"""A small Ray cluster that the tests of one worker process share, and runs on it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest

from rollouthub import Rollout
from rollouthub.cluster.ray_pool import RayPool
from rollouthub.cluster.worker_handles import PATIENCE, Terms, WorkerTimeouts
from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.open_plan import open_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.pool_options import RayOptions
from rollouthub.engine.run import play_run
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.sample import Sample
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import first_error
from rollouthub.models.credentials import Credentials
from rollouthub.store import open_run

PATIENCE_SECONDS = 120


@pytest.fixture(scope="session", autouse=True)
def needs_ray() -> None:
    """What is tested here runs on Ray."""
    if find_spec("ray") is None:
        pytest.skip("ray is not installed")


@pytest.fixture(scope="session")
def cluster() -> Generator[Any]:
    """Ray, connected to a cluster of this process with four slots."""
    from rollouthub.cluster.connection import connect, import_ray  # open all session
    from rollouthub.cluster.local_cluster import local_cluster, require_token

    require_token()
    ray = import_ray()
    with local_cluster(4) as address:
        connect(ray, RayOptions(address=address))
        yield ray
        ray.shutdown()


@dataclass
class Watched:
    """A run as its driver saw it."""

    directory: Path
    live: LiveRun
    stop: StopSignal
    committed_count: int = 0
    reasons: list[str] = field(default_factory=list[str])
    on_commit: Callable[["Watched"], None] = lambda run: None

    @property
    def pool(self) -> RayPool:
        """The run's pool."""
        assert self.live.parts is not None
        assert isinstance(self.live.parts.pool, RayPool)
        return self.live.parts.pool

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Nothing to note."""

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Count, and do what the test wants at this moment."""
        self.committed_count += len(rollouts)
        self.on_commit(self)

    def stopped(self, reason: str) -> None:
        """Note why."""
        self.reasons.append(reason)

    def warned(self, text: str) -> None:
        """Nothing to note."""

    def records(self, *, effective: bool = True) -> list[Rollout]:
        """What is kept."""
        with open_run(self.directory) as reader:
            return list(reader.rollouts(effective=effective))


class Play(Protocol):
    """Plays a run on the cluster."""

    async def __call__(self, on_commit: Callable[[Watched], None] = ..., **settings: Any) -> Watched: ...


@pytest.fixture
def play(cluster: Any, tmp_path: Path) -> Play:
    """Play a run; with `pool="local"`, in this process."""

    async def run(on_commit: Callable[[Watched], None] = lambda run: None, **settings: Any) -> Watched:
        resume = settings.pop("resume", False)
        given: dict[str, Any] = {"pool": "ray", "workers": 2, "track": (), **settings}
        if given["pool"] == "local":
            given.pop("workers")
        stop = StopSignal()
        folder = tmp_path / f"{given['pool']}{'-served' if given.get('served') else ''}"
        watched = Watched(folder, LiveRun(stop), stop, on_commit=on_commit)
        with anyio.fail_after(PATIENCE_SECONDS):
            await play_run(
                make_plan(RunRequest.model_validate(given)),
                watched.directory,
                given="",
                resume=resume,
                credentials=Credentials({}),
                observer=watched,
                stop=stop,
                live=watched.live,
            )
        return watched

    return run


@dataclass
class Kept:
    """A pool that played without a store, and what came of it."""

    pool: RayPool
    stop: StopSignal
    records: list[Rollout] = field(default_factory=list[Rollout])
    attempts_in_flight: dict[str, InFlight] = field(default_factory=dict[str, InFlight])
    on_record: Callable[["Kept"], None] = lambda kept: None

    def attempts(self, rollout_id: str) -> int:
        """Nothing is there from before."""
        return 0

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        """Keep a record."""
        self.attempts_in_flight.pop(rollout.rollout_id, None)
        self.records.append(rollout)
        self.on_record(self)

    def track(self, attempt: InFlight) -> None:
        """Know what is in flight."""
        self.attempts_in_flight[attempt.sample.rollout_id] = attempt

    def forget(self, attempt: InFlight) -> None:
        """It was not begun."""
        self.attempts_in_flight.pop(attempt.sample.rollout_id, None)

    def settled(self, sample: Sample) -> None:
        """No more of it follows."""


class PlayWith(Protocol):
    """Plays on the cluster with a patience of the test's own."""

    async def __call__(
        self, patience: WorkerTimeouts = ..., *, on_record: Callable[[Kept], None] = ..., **settings: Any
    ) -> Kept: ...


@pytest.fixture
def play_with(cluster: Any) -> PlayWith:
    """Play on the cluster, with less patience than a run has, and keep records in memory."""

    async def run(
        patience: WorkerTimeouts = PATIENCE, *, on_record: Callable[[Kept], None] = lambda kept: None, **settings: Any
    ) -> Kept:
        plan = make_plan(RunRequest.model_validate({"pool": "ray", "workers": 2, "track": (), **settings}))
        stop = StopSignal()
        async with open_plan(plan, Credentials({})) as opened, aclosing(opened.items("run")) as items:
            kept = Kept(RayPool(plan, Terms("run", {}, {}), stop, patience=patience), stop, on_record=on_record)
            try:
                with anyio.fail_after(PATIENCE_SECONDS):
                    await kept.pool.play((sample async for _, sample in items), kept)
            except BaseExceptionGroup as group:
                raise first_error(group) from group
        return kept

    return run
