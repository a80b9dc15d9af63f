"""A supply of an environment that scores groups: a group is handed out after its verdict, and not before."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import rollouthub
from rollouthub import Outcome, Rollout
from rollouthub.errors import ConfigError
from rollouthub.store import open_run
from rollouthub.trainers.stream import RolloutWorker, SampleRequest, rollout_worker

from .conftest import all_of, settings, supplied

RANKED = (str(Path(__file__).with_name("ranked.py")),)


async def test_a_group_is_handed_out_with_the_scores_of_its_verdict(tmp_path: Path) -> None:
    async with supplied(tmp_path, environments=RANKED, epochs=2) as supply:
        groups = await all_of(supply)
    assert len(groups) == 6
    assert all(sorted(group.rewards) == [0.0, 1.0, 2.0, 3.0] for group in groups)
    with open_run(tmp_path / "run") as run:
        assert (run.info.status, run.totals().attempts, run.waiting()) == ("finished", 24, 0)


async def test_a_group_with_a_broken_sample_is_judged_without_it(tmp_path: Path) -> None:
    async with supplied(tmp_path, environments=RANKED, world={"broken": 1}, min_group=3) as supply:
        groups = await all_of(supply)
    assert groups
    assert all(sorted(group.rewards) == [0.0, 1.0, 2.0] and len(group.lost) == 1 for group in groups)
    assert {rollout.score and rollout.score.feedback for group in groups for rollout in group.rollouts} == {"3"}


async def test_a_supply_that_is_left_in_mid_group_goes_on_with_it(tmp_path: Path) -> None:
    async with supplied(tmp_path, environments=RANKED, epochs=1) as supply:
        first = await anext(supply)
    async with supplied(tmp_path, environments=RANKED, epochs=1, resume=True) as supply:
        rest = await all_of(supply)
    assert {group.task.id for group in (first, *rest)} == {"0", "1", "2"}
    assert all(sorted(group.rewards) == [0.0, 1.0, 2.0, 3.0] for group in (first, *rest))


async def test_single_rollouts_of_it_are_refused(tmp_path: Path) -> None:
    with anyio.fail_after(60), pytest.raises(ConfigError, match="all samples of a task together"):
        async with rollouthub.stream_rollouts(groups=False, **settings(tmp_path, environments=RANKED)):
            pass


@asynccontextmanager
async def working(folder: Path, **more: Any) -> AsyncGenerator[RolloutWorker]:
    """A worker of it, for a minute at most."""
    chosen = {name: value for name, value in settings(folder, environments=RANKED, **more).items() if name != "batch"}
    with anyio.fail_after(60):
        async with rollout_worker(**chosen) as worker:
            yield worker


def judged(rollouts: Sequence[Rollout]) -> list[tuple[float | None, str | None]]:
    """The reward of each, and how many were judged with it."""
    return [(each.reward, None if each.score is None else each.score.feedback) for each in rollouts]


async def test_a_worker_returns_a_group_with_its_verdict(tmp_path: Path) -> None:
    async with working(tmp_path) as worker:
        assert worker.scores_groups()
        assert judged(await worker.play_group(SampleRequest("0"), 3)) == [(0.0, "3"), (1.0, "3"), (2.0, "3")]
        mixed = [SampleRequest(str(task), group="g", sample=number) for number in range(2) for task in (1, 2)]
        rollouts = await worker.play_all(mixed)
        assert judged(rollouts) == [(0.0, "2"), (0.0, "2"), (1.0, "2"), (1.0, "2")]
        assert [each.task.id for each in rollouts] == ["1", "2", "1", "2"]
        again = await worker.play_all(mixed)
        assert again == rollouts, "from the store"
        # A group without a name is one of its own, and a member that is asked for twice is played once.
        assert judged(await worker.play_all([SampleRequest("0"), SampleRequest("0")])) == [(0.0, "1"), (0.0, "1")]
        twice = await worker.play_all([SampleRequest("0", group="h"), SampleRequest("0", "ranked", group="h")])
        assert (judged(twice), twice[0]) == ([(0.0, "1")] * 2, twice[1])


async def test_members_asked_for_one_by_one_are_returned_when_all_are_over(tmp_path: Path) -> None:
    over: list[str] = []
    found: dict[int, Rollout] = {}

    async def play(worker: RolloutWorker, number: int) -> None:
        wanted = SampleRequest("0", group="g", sample=number, group_size=3)
        found[number] = await worker.play(wanted, on_waiting=partial(over.append, str(number)))

    async with working(tmp_path) as worker, anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(play, worker, number)
    assert sorted(over) == ["0", "1", "2"]
    assert judged([found[number] for number in range(3)]) == [(0.0, "3"), (1.0, "3"), (2.0, "3")]


async def test_a_worker_refuses_what_is_no_whole_group(tmp_path: Path) -> None:
    async with working(tmp_path) as worker:
        with pytest.raises(ConfigError, match=r"all samples of a task together.*RolloutWorker.play_group"):
            await worker.play(SampleRequest("0", group="g"))
        with pytest.raises(ConfigError, match="2 of the 4 members of group 'g' are asked for"):
            await worker.play_all([SampleRequest("0", group="g", sample=number, group_size=4) for number in range(2)])
    with pytest.raises(ConfigError, match="all samples of a task together, and this trainer asks one by one"):
        async with working(tmp_path / "other", no_groups="this trainer asks one by one"):
            pass


async def test_a_member_that_broke_is_lost_and_the_others_are_judged(tmp_path: Path) -> None:
    async with working(tmp_path, world={"broken": 1}, retries={"infrastructure": 0}) as worker:
        rollouts = await worker.play_group(SampleRequest("0"), 3)
        assert sorted(each.reward for each in rollouts if each.reward is not None) == [0.0, 1.0]
        assert {each.score.feedback for each in rollouts if each.score is not None} == {"2"}
        assert [each.outcome for each in rollouts].count(Outcome.ENVIRONMENT_FAILED) == 1


async def test_a_worker_that_is_resumed_has_the_group_judged_without_playing_it_again(tmp_path: Path) -> None:
    """It is left when one member waits for its verdict, and goes on with the other."""
    first = anyio.Event()
    wanted = [SampleRequest("0", group="g", sample=number, group_size=2) for number in range(2)]
    async with working(tmp_path) as worker, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(worker.play, wanted[0], on_waiting=first.set))
        await first.wait()
        tasks.cancel_scope.cancel()
    async with working(tmp_path, resume=True) as worker:
        assert judged(await worker.play_all(wanted)) == [(0.0, "2"), (1.0, "2")]
    with open_run(tmp_path / "run") as run:
        assert (run.totals().attempts, run.waiting()) == (2, 0)


async def test_a_member_whose_caller_left_before_it_was_begun_is_lost(tmp_path: Path) -> None:
    """The other callers do not wait for ever."""
    found: list[Rollout] = []

    async def play(worker: RolloutWorker, number: int) -> None:
        found.append(await worker.play(SampleRequest("0", group="g", sample=number, group_size=2)))

    slow = "mock/say?text=done&latency=0.2"
    async with (
        working(tmp_path, concurrency=1, model=slow) as worker,
        anyio.create_task_group() as tasks,
        anyio.create_task_group() as leaving,
    ):
        tasks.start_soon(play, worker, 0)
        await anyio.wait_all_tasks_blocked()
        leaving.start_soon(play, worker, 1)
        await anyio.wait_all_tasks_blocked()
        leaving.cancel_scope.cancel()
    assert judged(found) == [(0.0, "1")]
