"""A supply from its first group to its last, and what is dropped on the way."""

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

import rollouthub
from rollouthub import ModelReply, ModelRequest, Outcome, Rollout, RolloutGroup, Supply, SupplyError, UsageError
from rollouthub.errors import ConfigError
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.store import open_run
from rollouthub.trainers.stream.failing_tasks import MOST_BROKEN_PASSES

from .conftest import all_of, asking, settings, supplied


async def test_every_task_comes_once_as_a_whole_group(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        groups = await all_of(supply)
    assert sorted(group.task.id for group in groups) == ["0", "1", "2", "3", "4", "5"]
    assert all(len(group.rollouts) == 4 and not group.lost for group in groups)
    assert all(sorted(group.rewards) == [0.0, 0.0, 1.0, 1.0] for group in groups)
    with open_run(tmp_path / "run") as run:
        assert (run.info.status, run.totals().attempts) == ("finished", 24)


async def test_what_is_handed_out_is_durable(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        group = await anext(supply)
        with open_run(tmp_path / "run") as run:
            assert [run.rollout(each.rollout_id) for each in group.rollouts] == list(group.rollouts)


async def test_single_rollouts_come_where_no_groups_are_asked_for(tmp_path: Path) -> None:
    rollouts = list[Rollout]()
    with anyio.fail_after(60):
        async with rollouthub.stream_rollouts(groups=False, **settings(tmp_path)) as supply:
            rollouts = [rollout async for rollout in supply]
    assert Counter(rollout.task.id for rollout in rollouts) == Counter({str(number): 4 for number in range(6)})
    assert len({rollout.rollout_id for rollout in rollouts}) == 24


async def test_epochs_play_every_task_again_under_other_ids(tmp_path: Path) -> None:
    async with supplied(tmp_path, epochs=3) as supply:
        groups = await all_of(supply)
    assert Counter(group.task.id for group in groups) == Counter({str(number): 3 for number in range(6)})
    assert len({group.group_id for group in groups}) == 18
    assert (
        len({tuple(turn.sampling["seed"] for turn in each.turns) for group in groups for each in group.rollouts}) > 60
    )


async def test_the_first_epoch_has_the_samples_that_a_run_would_have(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        first = {rollout.rollout_id for group in await all_of(supply) for rollout in group.rollouts}
    async with supplied(tmp_path, directory=tmp_path / "again", shuffle=False) as supply:
        groups = await all_of(supply)
    assert {rollout.rollout_id for group in groups for rollout in group.rollouts} == first


async def test_another_order_each_epoch_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    async def order(name: str, seed: int) -> list[str]:
        async with supplied(tmp_path, directory=tmp_path / name, epochs=2, seed=seed, concurrency=1, batch=1) as supply:
            return [group.task.id for group in await all_of(supply)]

    one, again, other = await order("a", 1), await order("b", 1), await order("c", 2)
    assert one == again != other
    assert one[:6] != one[6:]


async def test_constant_groups_are_dropped_and_other_tasks_take_their_place(tmp_path: Path) -> None:
    async with supplied(tmp_path, drop_constant=True, world={"constant": 2}) as supply:
        groups = await all_of(supply)
        assert (supply.stats.constant, supply.stats.handed_out) == (3, 3)
    assert sorted(group.task.id for group in groups) == ["1", "3", "5"]


async def test_nothing_but_constant_groups_is_an_error_after_so_many(tmp_path: Path) -> None:
    async with supplied(tmp_path, drop_constant=True, epochs=None, max_dropped=5, world={"constant": 1}) as supply:
        with pytest.raises(SupplyError, match=r"5 groups were dropped.*5 had equal rewards"):
            await anext(supply)
        assert supply.stats.constant >= 5


async def test_constant_groups_come_after_so_many_where_that_is_asked(tmp_path: Path) -> None:
    more: dict[str, Any] = {"when_dropped": "yield", "max_dropped": 3, "epochs": None}
    async with supplied(tmp_path, drop_constant=True, world={"constant": 1}, **more) as supply:
        groups = await supply.batch(2)
        assert [group.is_constant for group in groups] == [True, True]
        assert supply.stats.constant >= 3


async def test_a_group_with_a_broken_member_is_dropped_unless_a_part_will_do(tmp_path: Path) -> None:
    async with supplied(tmp_path, world={"flaky": 1}) as supply:
        assert await all_of(supply) == []
        assert supply.stats.short == 6
    async with supplied(tmp_path, directory=tmp_path / "part", min_group=3, world={"flaky": 1}) as supply:
        groups = await all_of(supply)
        assert supply.stats.partial == 6
    assert {(len(group.rollouts), len(group.lost)) for group in groups} == {(3, 1)}
    assert all(group.lost[0].outcome is Outcome.ENVIRONMENT_FAILED for group in groups)
    assert all(group.lost[0].reward is None and len(group.rewards) == 3 for group in groups)


async def test_a_member_that_breaks_once_is_tried_again_before_its_group_comes(tmp_path: Path) -> None:
    async with supplied(tmp_path, retries={"infrastructure": 1}, world={"flaky": 1, "size": 1}, epochs=1) as supply:
        (group,) = await all_of(supply)
    assert sorted(rollout.attempt for rollout in group.rollouts) == [0, 0, 0, 1]
    with open_run(tmp_path / "run") as run:
        assert run.totals().attempts == 5


async def test_a_task_that_always_breaks_is_set_aside(tmp_path: Path) -> None:
    async with supplied(tmp_path, epochs=4, world={"broken": 3}) as supply:
        groups = await all_of(supply)
        assert (supply.stats.set_aside, supply.stats.short) == (2, 2 * MOST_BROKEN_PASSES)
    assert len(groups) == 4 * 4


async def test_endless_epochs_end_where_every_task_is_set_aside(tmp_path: Path) -> None:
    async with supplied(tmp_path, epochs=None, world={"broken": 1}) as supply:
        with pytest.raises(SupplyError, match="every task was set aside"):
            await anext(supply)


async def test_a_consumer_that_waits_stops_what_is_begun(tmp_path: Path) -> None:
    async with supplied(tmp_path, epochs=None, buffer=3) as supply:
        await supply.batch(2)
        while supply.stats.ready < 3:
            await anyio.wait_all_tasks_blocked()
        played = supply.stats.rollouts
        await anyio.wait_all_tasks_blocked()
        assert supply.stats.rollouts == played
        assert (supply.stats.begun, supply.stats.in_flight) == (5, 0)


async def test_leaving_early_interrupts_the_run_and_keeps_what_is_committed(tmp_path: Path) -> None:
    async with supplied(tmp_path, epochs=None) as supply:
        await supply.batch(2)
        committed = supply.stats.rollouts
    with open_run(tmp_path / "run") as run:
        assert run.info.status == "interrupted"
        assert run.totals().attempts >= committed >= 8


async def test_an_error_of_the_consumer_arrives_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with supplied(tmp_path, epochs=None) as supply:
            await anext(supply)
            _ = 1 / 0
    with open_run(tmp_path / "run") as run:
        assert run.info.status == "interrupted"


async def test_a_cancelled_consumer_leaves_within_bounds_and_episodes_are_on_record(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:

        async def consume() -> None:
            async with supplied(tmp_path, model="mock/say?latency=600") as supply:
                tasks.start_soon(leave, supply)
                await anext(supply)

        async def leave(supply: Supply[RolloutGroup]) -> None:
            await asking(supply)
            tasks.cancel_scope.cancel()

        tasks.start_soon(consume)
    with open_run(tmp_path / "run") as run:
        assert run.info.status == "interrupted"
        assert run.outcomes() == {Outcome.CANCELLED: 8}


async def test_a_run_that_reaches_its_limit_ends_the_supply_with_its_reason(tmp_path: Path) -> None:
    async with supplied(tmp_path, epochs=None, run_limits={"max_tokens": 100}) as supply:
        with pytest.raises(SupplyError, match="limit of 100 tokens"):
            await all_of(supply)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bach": 3}, "did you mean 'batch'"),
        ({"batch": 0}, "batch"),
        ({"drop_constant": True, "repeats": 1}, "groups of two"),
        ({"min_group": 5}, "more than a group has"),
        ({"groups": False, "min_group": 2}, "single rollouts"),
        ({"environments": ()}, "name an environment"),
        ({"metrics": "nine"}, r"'nine' is no \[HOST:\]PORT"),
        ({"track": ("wandb",)}, "draws no curves"),
    ],
)
async def test_a_wrong_setting_is_refused_before_anything_is_begun(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    asked: dict[str, Any] = {"groups": True} | settings(tmp_path, **wrong)
    with pytest.raises(UsageError, match=said):
        rollouthub.stream_rollouts(**asked)
    assert not (tmp_path / "run").exists()


async def test_a_model_object_of_the_trainers_own_plays_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    class Own(MockModel):
        """An engine in the trainer's process."""

        def __init__(self) -> None:
            super().__init__(ModelConfig(name="mock/say?text=done"))
            self.asked = 0

        async def generate(self, request: ModelRequest) -> ModelReply:
            self.asked += 1
            return await super().generate(request)

    first, second = Own(), Own()
    async with supplied(tmp_path, model=first, max_staleness=0) as supply:
        groups = await supply.batch()
    async with supplied(tmp_path, model=second, max_staleness=0, resume=True) as supply:
        await supply.publish_weights(2)
        rest = await all_of(supply)
    assert first.asked >= sum(len(group.rollouts) for group in groups)
    assert second.asked > 0
    assert {group.policy_version_max for group in rest} >= {2}


async def test_an_object_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is no model: give a name"):
        async with supplied(tmp_path, model=7):
            pass
    assert not (tmp_path / "run").exists()
