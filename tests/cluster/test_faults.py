"""What workers that hang, refuse, or have no room cost, and that nothing waits for ever."""

import os
import signal
from collections import Counter
from pathlib import Path

import anyio
import pytest

from rollouthub import Outcome, UsageError
from rollouthub.cluster.worker_handles import WorkerTimeouts

from .conftest import Kept, PlayWith
from .test_pool import alive

pytestmark = pytest.mark.soak

PARTICULAR = '''
import sys
from pathlib import Path
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

if "default_worker" in sys.argv[0]:
    try:
        Path({flag!r}).touch(exist_ok=False)
    except FileExistsError:
        raise OSError("no such file on this node") from None

class {name}(Environment[EnvironmentConfig]):
    """Can be opened on one node alone."""

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(30):
            yield Task(Public(id=f"test/{{index}}", prompt="?"), Secret())

    async def verify(self, submission):
        return Score(reward=1.0, passed=True)
'''


def particular(folder: Path, name: str = "Particular", *, is_nowhere: bool = False) -> str:
    """A file with an environment that only the first worker can open, or none."""
    file, flag = folder / f"{name.lower()}.py", folder / f"{name}.flag"
    file.write_text(PARTICULAR.format(name=name, flag=str(flag)))
    if is_nowhere:
        flag.touch()
    return str(file)


async def test_a_worker_that_hangs_is_ended_and_its_episodes_are_played_again(play_with: PlayWith) -> None:
    stopped = list[int]()

    def stop(kept: Kept) -> None:
        if not stopped and len(kept.records) >= 30:
            stopped.append(kept.pool.status()[0].pid)
            os.kill(stopped[0], signal.SIGSTOP)

    kept = await play_with(
        WorkerTimeouts(silence_seconds=1.5),
        on_record=stop,
        environments=("arithmetic",),
        model="mock/solver?latency=0.1",
        limit=150,
        concurrency=16,
    )
    scored = [record for record in kept.records if record.outcome is Outcome.SCORED]
    assert Counter(record.rollout_id for record in scored).most_common(1)[0][1] == 1
    assert len(scored) == 150
    lost = [record.faults[0].message for record in kept.records if record.outcome is not Outcome.SCORED]
    assert 0 < len(lost) <= 16
    assert all("has said nothing for 1.5 s" in message for message in lost)
    for _ in range(400):
        if not alive(stopped[0]):
            break
        await anyio.sleep(0.05)
    assert not alive(stopped[0])


async def test_a_node_that_cannot_open_the_environment_costs_its_place_alone(
    play_with: PlayWith, tmp_path: Path
) -> None:
    kept = await play_with(environments=(particular(tmp_path),), agent="null")
    assert [record.outcome for record in kept.records] == [Outcome.SCORED] * 30
    assert kept.stop.reason is None


async def test_what_every_worker_refuses_ends_the_run_with_their_words(play_with: PlayWith, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"worker \d on .*no such file on this node"):
        await play_with(environments=(particular(tmp_path, is_nowhere=True),), agent="null")


async def test_an_environment_that_no_worker_opens_ends_a_run_parted_by_environment(
    play_with: PlayWith, tmp_path: Path
) -> None:
    broken = particular(tmp_path, "Broken", is_nowhere=True)

    with pytest.raises(UsageError, match=r"worker 1 on .*no such file on this node"):
        await play_with(
            environments=("arithmetic", broken),
            agent="tool_loop",
            model="mock/solver?latency=30",
            limit=20,
            ray={"by_environment": True},
        )


async def test_an_environment_whose_workers_do_not_come_back_ends_a_run_parted_by_environment(
    play_with: PlayWith, tmp_path: Path
) -> None:
    killed = list[int]()

    def kill(kept: Kept) -> None:
        if not killed and any(record.environment.name == "particular" for record in kept.records):
            killed.extend(status.pid for status in kept.pool.status() if status.name == "worker 1")
            os.kill(killed[0], signal.SIGKILL)

    kept = await play_with(
        WorkerTimeouts(longest_pause_seconds=0.2),
        on_record=kill,
        environments=("arithmetic", particular(tmp_path)),
        model="mock/solver?latency=0.1",
        limit=30,
        concurrency=4,
        ray={"by_environment": True},
    )
    assert kept.stop.reason is not None
    assert kept.stop.reason.startswith("no worker plays particular any more: worker 1 on ")


async def test_workers_that_find_no_room_leave_their_share_to_the_others(play_with: PlayWith) -> None:
    most = list[int]()

    def note(kept: Kept) -> None:
        if len(kept.records) > 40:
            most.append(max(status.in_flight for status in kept.pool.status()))

    with anyio.fail_after(30):
        kept = await play_with(
            WorkerTimeouts(late_seconds=0.3),
            on_record=note,
            environments=("arithmetic",),
            model="mock/solver?latency=0.05",
            limit=200,
            concurrency=32,
            workers=4,
            ray={"cpus": 3},
        )
    assert len(kept.records) == 200
    assert max(most) >= 32
    assert kept.pool.lost_workers == 0


async def test_a_place_that_is_wanted_again_while_its_worker_leaves_is_manned_again(play_with: PlayWith) -> None:
    def steer(kept: Kept) -> None:
        pool = kept.pool
        up = pool.status()
        if len(kept.records) == 40:
            pool.resize_workers(1)
        elif pool.workers == 1 and len(up) == 1 and len(kept.records) > 60:
            pool.resize_workers(2)
        elif pool.workers == 2 and len(up) == 2 and len(kept.records) > 60 and not kept.stop.is_set:
            kept.stop.set("seen enough")

    kept = await play_with(
        on_record=steer,
        environments=("arithmetic",),
        model="mock/solver?latency=0.05",
        limit=1000,
        repeats=5,
        concurrency=8,
    )
    assert kept.stop.reason == "seen enough"


async def test_every_environment_keeps_a_worker_of_its_own(play_with: PlayWith) -> None:
    def shrink(kept: Kept) -> None:
        kept.pool.resize_workers(1)

    kept = await play_with(
        on_record=shrink,
        environments=("arithmetic", "customer_service"),
        agent="oracle",
        limit=10,
        ray={"by_environment": True},
    )
    assert len(kept.records) == 20
    assert kept.pool.workers == 2


async def test_a_run_cut_short_while_a_worker_hangs_ends_soon_and_says_what_was_cut(play_with: PlayWith) -> None:
    scope, seen = anyio.CancelScope(), list[Kept]()

    def cut(kept: Kept) -> None:
        if not seen:
            seen.append(kept)
            hangs = max(kept.pool.status(), key=lambda status: status.in_flight)
            os.kill(hangs.pid, signal.SIGSTOP)
            scope.cancel()

    with anyio.fail_after(25), scope:
        await play_with(
            WorkerTimeouts(hurry_seconds=1.0),
            on_record=cut,
            environments=("arithmetic",),
            model="mock/solver?latency=0.05..5",
            limit=40,
            concurrency=16,
        )
    outcomes = Counter(record.outcome for record in seen[0].records)
    assert outcomes[Outcome.CANCELLED] >= 4
    assert max(Counter(record.rollout_id for record in seen[0].records).values()) == 1
    assert not seen[0].attempts_in_flight
