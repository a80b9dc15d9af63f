"""What a run plays on, as the door tells it: model servers, workers, sandboxes."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from rollouthub.cli.live.machine_lines import machine_lines
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.live.control.live_machines import machines, public
from rollouthub.live.control.live_views import BackendView, RunView, SandboxesView, WorkerView
from rollouthub.telemetry.metrics.machine_usage import usage
from rollouthub.telemetry.metrics.process_figures import Backend, ProcessSnapshot, SandboxLoad
from tests.models.servers import mock_server

from .conftest import Guest, Watch, until

SLOW = "mock/solver?latency=60000"


async def test_a_mock_model_tells_what_it_is_asked(watch: Watch) -> None:
    async with watch(None, agent="tool_loop", model=SLOW) as run, run.knock() as client:
        await until(lambda: [attempt.state for attempt in run.live.attempts.values()] == ["model"] * 3)
        (backend,) = (await client.list()).run.backends
        assert backend == BackendView(model=SLOW, role="policy", name=SLOW, in_flight=3, calls=3, errors=0, state="up")
        await client.cancel(None)


async def test_a_dead_replica_is_told_with_its_reason_and_without_what_is_secret(watch: Watch) -> None:
    dead = "http://127.0.0.1:9/v1"
    async with mock_server("mock/solver?latency=1") as alive:
        guest = Guest()
        async with watch(guest, model="hosted_vllm/served", base_url=[alive, dead]) as run, run.knock() as client:
            await until(lambda: guest.waiting == 3)
            listed = (await client.list()).run
            up, down = listed.backends
            assert (up.name, up.state, up.reason) == (alive, "up", None)
            assert (down.name, down.state, down.calls) == (dead, "open", 0)
            assert "cannot be reached" in (down.reason or "")
            lines = [line.plain for line in machine_lines(listed)]
            assert f"  model at {dead}: 0 calls in flight, 0 made · open: {down.reason}" in lines


async def test_a_run_without_a_model_or_sandboxes_says_nothing_of_them(watch: Watch) -> None:
    async with watch(Guest()) as run, run.knock() as client:
        listed = (await client.list()).run
        assert (listed.backends, listed.staff, listed.sandboxes) == ((), (), ())
        assert list(machine_lines(listed)) == []


@dataclass
class Place:
    """Where a worker plays."""

    name: str
    state: str = "playing"
    node: str = "10.0.0.1"
    pid: int | None = 77
    in_flight: int = 4
    done: int = 9


class ResizablePool:
    """A pool whose workers told these snapshots last."""

    def __init__(self, places: Sequence[Place], snapshots: Sequence[ProcessSnapshot]) -> None:
        self._places, self._snapshots = places, snapshots
        self.looks = 0

    def look(self) -> tuple[Sequence[Place], Sequence[ProcessSnapshot]]:
        self.looks += 1
        return self._places, self._snapshots


def told(process: str, *backends: Backend, **loads: int) -> ProcessSnapshot:
    load = SandboxLoad("yard", "docker", live=loads.get("live", 0), opened=9, failed=0, died=0, warm=loads.get("warm"))
    return ProcessSnapshot(process=process, usage=usage(), backends=list(backends), sandboxes=[load])


def live_on(pool: object) -> LiveRun:
    @dataclass
    class Parts:
        pool: object
        models: dict[str, object]
        hosts: tuple[object, ...] = ()

    live = LiveRun(StopSignal())
    live.parts = Parts(pool, {"policy": object()})  # pyright: ignore[reportAttributeAccessIssue]  # what is looked at
    return live


def test_what_workers_told_is_put_together() -> None:
    well = Backend("m", "http://s/v1", 3, 100, 1, True, 0.2, role="policy", latency_p95_seconds=0.5)
    sick = replace(well, standing="open", reason="gone at http://me:pw@s/v1?key=1 no", latency_seconds=0.4)
    other = replace(well, role="judge")
    pool = ResizablePool(
        [Place("worker 0"), Place("worker 1", state="starting", node="", pid=None, in_flight=0, done=0)],
        [told("a", well, other, live=2, warm=1), told("b", sick, live=3, warm=0)],
    )
    seen = machines(live_on(pool))
    both, judge = seen.backends
    assert (both.in_flight, both.calls, both.errors) == (6, 200, 2)
    assert (both.latency_p50, both.latency_p95, both.state) == (0.4, 0.5, "open")
    assert both.reason == "gone at http://s/v1 no"
    assert (judge.role, judge.calls, judge.state) == ("judge", 100, "up")
    assert [worker.state for worker in seen.staff] == ["playing", "starting"]
    assert seen.sandboxes == (SandboxesView(environment="yard", provider="docker", in_use=5, warm=1),)
    assert pool.looks == 1


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no answer from https://u:p@h:1/v1", "no answer from https://h:1/v1"),
        ("GET http://h/v1?api_key=sk-1&x=2 failed", "GET http://h/v1 failed"),
        ("\x1b[31mred\x1b[0m\r\nand\u202e more", "red and more"),
        ("what? no", "what? no"),
    ],
)
def test_a_servers_words_are_plain_and_hold_no_login(said: str, shown: str) -> None:
    assert public(said) == shown


def test_a_long_reason_is_cut() -> None:
    assert len(public("x" * 100_000)) < 400


def test_many_servers_are_summed_up_but_for_those_that_are_not_up(run_view: RunView) -> None:
    up = BackendView(model="m", role="policy", name="http://s/v1", in_flight=2, calls=10, errors=0, state="up")
    down = up.model_copy(update={"name": "http://t/v1", "state": "cooling", "reason": "tired", "errors": 3})
    worker = WorkerView(name="worker 0", node="n", pid=1, in_flight=2, done=5, state="playing")
    sandboxes = SandboxesView(environment="yard", provider="docker", in_use=2, warm=1)
    view = run_view.model_copy(
        update={"backends": (up,) * 5 + (down,), "staff": (worker,) * 2, "sandboxes": (sandboxes,)}
    )
    assert [line.plain for line in machine_lines(view)] == [
        "  6 model servers: 5 up, 1 cooling · 12 calls in flight, 60 made, 3 failed",
        "  model at http://t/v1: 2 calls in flight, 10 made, 3 failed · cooling: tired",
        "  workers on 1 node: 2 playing · 4 in hand, 10 done",
        "  sandboxes of yard (docker): 2 in use, 1 warm",
    ]


@pytest.fixture
def run_view() -> RunView:
    """A run that plays."""
    return RunView(
        run_id="r",
        directory="/runs/r",
        pid=1,
        status="running",
        environments=("yard",),
        agent="guest",
        model=None,
        planned=1,
        done=0,
        in_flight=0,
        concurrency=1,
        followers=0,
        started_at=0.0,
        seconds=1.0,
        means=None,
    )
