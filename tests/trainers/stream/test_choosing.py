"""Which groups a trainer gets, by its own choice: filtered by name, redundant, waited for, played again."""

from pathlib import Path
from typing import Any

import pytest

import rollouthub
from rollouthub import Outcome, RolloutGroup, SupplyError, UsageError
from rollouthub.engine.run_request import RunRequest
from rollouthub.store import open_run
from rollouthub.trainers.stream import RewardBand, RewardSpread
from rollouthub.trainers.stream.stream_rules import SupplyRules, bounds_of
from tests.export import made

from .conftest import all_of, settings, supplied
from .test_group_tracker import World


def group(*rewards: float) -> RolloutGroup:
    """One with these rewards."""
    members = tuple(made.rollout(reward=reward, sample=number) for number, reward in enumerate(rewards))
    return RolloutGroup("g1", members[0].environment, members[0].task, members)


def test_a_band_keeps_what_is_neither_solved_nor_out_of_reach() -> None:
    keep = RewardBand(0.2, 0.8)
    assert [keep(group(*rewards)) for rewards in ((0, 0, 0), (1, 0, 0), (1, 1, 1), (1, 1, 0.4))] == [
        False,
        True,
        False,
        True,
    ]


def test_a_spread_keeps_what_differs_enough() -> None:
    keep = RewardSpread(0.4)
    assert [keep(group(*rewards)) for rewards in ((0.5,), (0.5, 0.5), (0.4, 0.6), (0.0, 1.0))] == [
        False,
        False,
        False,
        True,
    ]


def test_drops_are_counted_by_the_name_of_the_first_filter_against() -> None:
    def odd(group: RolloutGroup) -> bool:
        return sum(group.rewards) % 2 == 1

    world = World(max_dropped=4)
    world.tracker.acceptance.filters = (RewardBand(0.1, 1.0), odd)
    for rewards in ((0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)):
        world.play(rewards)
    taken = world.tracker.take_at_once()
    assert taken is not None
    assert taken.rewards == (1.0, 0.0, 0.0)
    assert world.tracker.stats.filtered == {"RewardBand": 2, "odd": 1}
    assert (world.tracker.stats.dropped, [entry.fate for entry in world.entries]) == (3, ["filtered"] * 3)
    world.play((0.0, 0.0, 0.0))
    assert "3 were against RewardBand, 1 were against odd" in str(world.tracker.failure)


def test_a_filter_that_breaks_ends_the_supply_and_says_which() -> None:
    def broken(group: RolloutGroup) -> bool:
        return group.rewards[9] > 0

    world = World()
    world.tracker.acceptance.filters = (broken,)
    world.play((1.0, 0.0, 0.0))
    assert "group filter 'broken' broke on group task-0" in str(world.tracker.failure)
    assert isinstance(world.tracker.failure, SupplyError)


async def test_filters_of_the_trainers_choose_among_real_groups(tmp_path: Path) -> None:
    def not_the_first(group: RolloutGroup) -> bool:
        return group.task.id != "0"

    async with supplied(tmp_path, filters=[not_the_first], world={"size": 3}) as supply:
        assert sorted(group.task.id for group in await all_of(supply)) == ["1", "2"]
        assert supply.stats.filtered == {"not_the_first": 1}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"groups": False, "filters": [RewardSpread(0.1)]}, "filters are about groups"),
        ({"groups": False, "redundancy": 1}, "single rollouts"),
        ({"stale": "wait", "max_staleness": None}, "give a bound"),
        ({"stale": "later"}, "stale"),
        ({"redundancy": -1}, "redundancy"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"groups": True} | settings(tmp_path, **wrong)
    with pytest.raises(UsageError, match=said):
        rollouthub.stream_rollouts(**asked)


async def test_the_first_samples_make_the_group_and_stragglers_are_broken_off(tmp_path: Path) -> None:
    world = {"size": 2, "stuck": 3}
    async with supplied(tmp_path, redundancy=2, repeats=3, concurrency=10, world=world) as supply:
        groups = await all_of(supply)
        stats = supply.stats
    assert [(len(group.rollouts), group.size) for group in groups] == [(3, 3), (3, 3)]
    assert (stats.redundant, stats.partial, stats.short) == (4, 0, 0)
    with open_run(tmp_path / "run") as run:
        assert run.outcomes() == {Outcome.SCORED: 6, Outcome.CANCELLED: 4}
        assert run.info.status == "finished"
    async with supplied(tmp_path, redundancy=2, repeats=3, world=world, resume=True) as supply:
        assert await all_of(supply) == []


def test_a_group_with_redundant_members_is_whole_once_enough_are_scored() -> None:
    request = RunRequest(environments=("arithmetic",), repeats=4)
    bounds = bounds_of(SupplyRules(redundancy=2, batch=1), request)
    assert (bounds.samples, bounds.size, bounds.least_scored) == (6, 4, 4)


def test_what_the_next_version_would_make_stale_is_waited_for_where_that_is_asked() -> None:
    for stale, waits in (("drop", False), ("wait", True)):
        world = World(max_staleness=1, stale=stale)
        straggler = world.begin()
        world.policy.advance(1)
        world.play((1.0, 0.0, 1.0))
        early = world.tracker.take_at_once()
        assert (early is None) == waits
        world.end(straggler, (0.0, 1.0, 0.0))
        taken = world.tracker.take_at_once()
        assert taken is not None
        assert taken.rewards == (0.0, 1.0, 0.0), "the oldest comes first"
        assert world.tracker.stats.stale == 0


def test_a_supply_that_waits_hands_out_while_it_is_held() -> None:
    world = World(max_staleness=0, stale="wait")
    world.begin()
    world.play((1.0, 0.0, 1.0))
    assert world.tracker.take_at_once() is None
    world.tracker.is_held = True
    assert world.tracker.take_at_once() is not None


async def test_nothing_is_dropped_as_stale_of_a_trainer_that_lets_the_slow_come_first(tmp_path: Path) -> None:
    model = "mock/say?text=done&latency=0..0.05"
    more: dict[str, Any] = {"world": {"size": 8}, "stale": "wait", "max_staleness": 1}
    async with supplied(tmp_path, model=model, concurrency=16, **more) as supply:
        staleness = list[int]()
        while groups := await supply.batch():
            staleness += [group.staleness for group in groups]
            await supply.publish_weights()
        assert (len(staleness), supply.stats.stale, supply.stats.stale_rollouts) == (8, 0, 0)
    assert max(staleness) == 1


async def test_episodes_are_discarded_and_played_again_with_the_new_weights_where_that_is_asked(
    tmp_path: Path,
) -> None:
    async with supplied(tmp_path, model="mock/say?text=done&latency=0..0.3", world={"size": 4}) as supply:
        await anext(supply)
        under_way = supply.stats.in_flight
        assert under_way
        await supply.publish_weights(1, episodes="discard")
        groups = await all_of(supply)
        discarded = supply.stats.discarded
    assert discarded >= 1
    assert {len(group.rollouts) for group in groups} == {4}
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert {rollout.policy_version_min for rollout in rollouts if rollout.attempt} == {1}
    assert sum(rollout.attempt for rollout in rollouts) == discarded
    assert all(rollout.policy_version_min == rollout.policy_version_max for rollout in rollouts)
    with open_run(tmp_path / "run") as run:
        first = [attempt for each in rollouts if each.attempt for attempt in run.attempts(each.rollout_id)]
    assert sorted(each.outcome for each in first) == [Outcome.CANCELLED] * discarded + [Outcome.SCORED] * discarded
