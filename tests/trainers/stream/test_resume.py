"""A supply taken up again, and drawing from what it has."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from anyio import wait_all_tasks_blocked

import rollouthub
from rollouthub import RolloutGroup, UsageError
from rollouthub.errors import RunDirectoryError
from rollouthub.store import open_run
from rollouthub.trainers.stream.ledger import SUPPLY

from .conftest import all_of, settings, supplied


async def test_a_resumed_supply_hands_out_what_was_finished_and_not_handed_out(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        first = await supply.batch(2)
        while supply.stats.ready < 4:
            await wait_all_tasks_blocked()
    async with supplied(tmp_path, resume=True) as supply:
        rest = await all_of(supply)
        assert supply.stats.rollouts == 0, "nothing is played twice"
    assert len(rest) == 4
    assert len({group.group_id for group in (*first, *rest)}) == 6
    with open_run(tmp_path / "run") as run:
        assert run.info.status == "finished"


async def test_what_a_consumer_failed_over_comes_again(tmp_path: Path) -> None:
    done, taken = list[RolloutGroup](), list[str]()
    with pytest.raises(ZeroDivisionError):
        async with supplied(tmp_path) as supply:
            done += await supply.batch(2)
            taken += [group.group_id for group in await supply.batch(2)]
            _ = 1 / 0
    async with supplied(tmp_path, resume=True) as supply:
        again = {group.group_id for group in await all_of(supply)}
    assert len(again) == 4
    assert set(taken) < again
    assert not {group.group_id for group in done} & again


async def test_a_resumed_supply_plays_what_is_left_of_its_epochs(tmp_path: Path) -> None:
    seen = list[str]()
    is_first = True
    while True:
        async with supplied(tmp_path, epochs=2, resume=not is_first) as supply:
            batch = await supply.batch(3)
            seen += [group.group_id for group in batch]
        is_first = False
        if not batch:
            break
    assert len(seen) == len(set(seen)) == 12


async def test_a_finished_run_can_be_supplied(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        played = {group.group_id for group in await all_of(supply)}
    (tmp_path / "run" / SUPPLY).unlink()
    async with supplied(tmp_path, resume=True) as supply:
        assert {group.group_id for group in await all_of(supply)} == played
        assert supply.stats.rollouts == 0


async def test_the_policy_version_is_remembered(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        await supply.publish_weights(7)
    async with supplied(tmp_path, resume=True) as supply:
        assert supply.policy_version == 7


async def test_going_back_to_a_checkpoint_hands_out_again_what_came_after_it(tmp_path: Path) -> None:
    handed: dict[int, set[str]] = {}
    async with supplied(tmp_path, world={"size": 8}) as supply:
        for version in range(3):
            handed[version] = {group.group_id for group in await supply.batch()}
            await supply.publish_weights()
    async with supplied(tmp_path, world={"size": 8}, resume=True, policy_version=1) as supply:
        assert supply.policy_version == 1
        groups = await all_of(supply)
        stale = supply.stats.stale
    again = {group.group_id for group in groups}
    assert not again & handed[0]
    assert all((group.policy_version_max or 0) <= 1 for group in groups), "of no policy that was lost"
    assert len(groups) == 6
    assert stale == supply.stats.requeued


async def test_a_stale_task_that_was_to_be_played_again_is_after_a_restart(tmp_path: Path) -> None:
    async with supplied(tmp_path, max_staleness=0, batch=4, world={"size": 4}) as supply:
        while supply.stats.ready < 4:
            await wait_all_tasks_blocked()
        await supply.pause()
        await supply.publish_weights()
        assert supply.stats.requeued == 4
    async with supplied(tmp_path, max_staleness=0, batch=4, world={"size": 4}, resume=True) as supply:
        groups = await all_of(supply)
    assert sorted(group.task.id for group in groups) == ["0", "1", "2", "3"]
    assert {group.policy_version_min for group in groups} == {1}


async def test_groups_and_single_rollouts_do_not_mix_in_one_directory(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        await anext(supply)
    with pytest.raises(RunDirectoryError, match="supplied groups before"):
        async with rollouthub.stream_rollouts(groups=False, **settings(tmp_path, resume=True)):
            pass


async def test_a_directory_with_a_run_is_not_begun_anew(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        await anext(supply)
    with pytest.raises(UsageError, match="already holds a run"):
        async with supplied(tmp_path):
            pass


async def test_a_ledger_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        await anext(supply)
    with closing(sqlite3.connect(tmp_path / "run" / SUPPLY)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(RunDirectoryError, match="newer rollouthub"):
        async with supplied(tmp_path, resume=True):
            pass


async def test_what_was_handed_out_can_be_drawn_again(tmp_path: Path) -> None:
    async with supplied(tmp_path, world={"size": 12}) as supply:
        for _ in range(4):
            await supply.batch()
            await supply.publish_weights()
        assert len(await supply.sample(99)) == 8, "and nothing else"
        newest = [group.policy_version_min for group in await supply.sample(8)]
        assert newest == sorted(newest, key=lambda version: -(version or 0))
        fresh = await supply.sample(99, max_staleness=2)
        assert all(group.staleness <= 2 for group in fresh)
        assert 0 < len(fresh) < 8
        uniform = await supply.sample(3, strategy="uniform", seed=1)
        assert [group.group_id for group in uniform] == [
            group.group_id for group in await supply.sample(3, strategy="uniform", seed=1)
        ]
        assert len({group.group_id for group in await supply.sample(8, strategy="weighted", seed=1)}) == 8
    async with supplied(tmp_path, world={"size": 12}, resume=True) as supply:
        assert len(await supply.sample(99)) == 8, "the buffer outlives a restart"


async def test_a_weighted_draw_prefers_the_new(tmp_path: Path) -> None:
    async with supplied(tmp_path, repeats=1, batch=4, concurrency=4, world={"size": 40}) as supply:
        for _ in range(10):
            await supply.batch()
            await supply.publish_weights()
        ages = [
            group.staleness for seed in range(20) for group in await supply.sample(1, strategy="weighted", seed=seed)
        ]
        assert sum(ages) / len(ages) < 4
