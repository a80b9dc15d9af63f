"""Exchanging weights: what is held, finished, broken off, stamped and thrown away."""

from pathlib import Path

import anyio
import pytest

import rollouthub
from rollouthub import ModelReply, ModelRequest, RolloutGroup, Supply, UsageError
from rollouthub.messages import assistant, user
from rollouthub.store import open_run
from rollouthub.trainers.stream.generation_control import InFlight
from rollouthub.trainers.stream.policy_version import PolicyVersions
from rollouthub.trainers.stream.weight_sync_gate import GatedModel, WeightSyncGate

from .conftest import all_of, asking, settings, supplied


class SlowModel:
    """Answers when it is let."""

    name = "test/slow"

    def __init__(self) -> None:
        self.asked = 0
        self.begun, self.let = anyio.Event(), anyio.Event()

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        self.begun.set()
        await self.let.wait()
        return ModelReply(message=assistant("done"), finish_reason="stop")


class Told:
    """A control that keeps what it is told."""

    def __init__(self) -> None:
        self.said = list[str]()

    async def pause(self, in_flight: InFlight) -> None:
        self.said.append(f"pause {in_flight}")

    async def resume(self) -> None:
        self.said.append("resume")

    async def updated(self, version: int) -> None:
        self.said.append(f"updated {version}")


REQUEST = ModelRequest([user("hello")], session="group-0")


async def test_a_call_that_is_broken_off_is_asked_again_with_the_new_weights() -> None:
    gate, model, replies = WeightSyncGate(PolicyVersions(3)), SlowModel(), list[ModelReply]()

    async def ask() -> None:
        replies.append(await GatedModel(model, gate).generate(REQUEST))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await model.begun.wait()
            gate.shut()
            gate.abort()
            await gate.empty()
            gate.policy.advance(4)
            model.let.set()
            gate.open()
    assert (model.asked, gate.aborted) == (2, 1)
    assert replies[0].policy_version == 4
    assert gate.span_of("group-0") is None


async def test_a_call_that_goes_on_over_a_change_of_weights_counts_as_old_and_says_how_new() -> None:
    gate, model, replies = WeightSyncGate(PolicyVersions(3)), SlowModel(), list[ModelReply]()

    async def ask() -> None:
        replies.append(await GatedModel(model, gate).generate(REQUEST))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await model.begun.wait()
            gate.policy.advance(4)
            model.let.set()
    assert replies[0].policy_version == 3
    assert gate.span_of("group-0") == 4
    assert gate.span_of("group-0") is None


async def test_rollouts_carry_the_version_they_were_made_with(tmp_path: Path) -> None:
    async with supplied(tmp_path, max_staleness=0, world={"size": 8}) as supply:
        for version in range(4):
            groups = await supply.batch()
            assert [group.staleness for group in groups] == [0, 0]
            assert {group.policy_version_min for group in groups} == {version}
            assert {turn.policy_version for group in groups for each in group.rollouts for turn in each.turns} == {
                version
            }
            assert await supply.publish_weights() == version + 1
        assert supply.stats.stale == 0
    with open_run(tmp_path / "run") as run:
        assert {rollout.policy_version_max for rollout in run.rollouts()} == {0, 1, 2, 3}


async def test_what_is_too_old_is_not_handed_out_and_its_task_is_played_again(tmp_path: Path) -> None:
    async with supplied(tmp_path, max_staleness=1, world={"size": 4}) as supply:
        while supply.stats.ready < 4:
            await anyio.wait_all_tasks_blocked()
        await supply.publish_weights(version=2)
        groups = await all_of(supply)
        stats = supply.stats
    assert (stats.stale, stats.stale_rollouts, stats.requeued) == (4, 16, 4)
    assert sorted(group.task.id for group in groups) == ["0", "1", "2", "3"]
    assert {group.policy_version_min for group in groups} == {2}
    with open_run(tmp_path / "run") as run:
        assert run.totals().attempts == 8 * 4


async def test_without_a_bound_nothing_is_too_old(tmp_path: Path) -> None:
    async with supplied(tmp_path, max_staleness=None, world={"size": 4}) as supply:
        while supply.stats.ready < 4:
            await anyio.wait_all_tasks_blocked()
        await supply.publish_weights(version=9)
        groups = await all_of(supply)
    assert {group.staleness for group in groups} == {9}


async def test_nothing_is_asked_of_the_model_while_weights_change(tmp_path: Path) -> None:
    control = Told()
    async with supplied(tmp_path, control=control, epochs=None) as supply:
        await supply.batch()
        async with supply.updating(5) as version:
            assert (version, supply.is_paused, supply.policy_version) == (5, True, 0)
            while supply.stats.in_flight and not supply.stats.ready:
                await anyio.wait_all_tasks_blocked()
            played = supply.stats.rollouts
            await anyio.wait_all_tasks_blocked()
            assert supply.stats.rollouts == played
        assert (supply.is_paused, supply.policy_version) == (False, 5)
        await supply.batch()
    assert control.said == ["pause finish", "updated 5", "resume"]


@pytest.mark.parametrize("in_flight", ["finish", "abort", "keep"])
async def test_every_way_to_pause_lets_the_run_go_on(tmp_path: Path, in_flight: InFlight) -> None:
    async with supplied(tmp_path, model="mock/say?text=done&latency=0.02..0.1") as supply:
        for _ in range(3):
            await supply.batch()
            await supply.publish_weights(in_flight=in_flight)
    with open_run(tmp_path / "run") as run:
        assert set(run.outcomes()) == {rollouthub.Outcome.SCORED}
        if in_flight == "keep":
            assert all((each.policy_version_min or 0) <= (each.policy_version_max or 0) for each in run.rollouts())


async def test_calls_that_do_not_finish_in_time_are_broken_off(tmp_path: Path) -> None:
    async with supplied(tmp_path, model="mock/say?text=done&latency=600") as supply:
        await asking(supply)
        await supply.pause(patience_seconds=0.01)
        assert supply.stats.aborted_calls == 8


async def test_a_failed_update_leaves_generation_held_and_another_mends_it(tmp_path: Path) -> None:
    async def fails() -> None:
        raise ConnectionError("half of it arrived")

    async with supplied(tmp_path) as supply:
        await supply.batch()
        with pytest.raises(ConnectionError):
            await supply.publish_weights(1, fails)
        assert (supply.is_paused, supply.policy_version) == (True, 0)
        await supply.publish_weights(1)
        assert (supply.is_paused, supply.policy_version) == (False, 1)
        assert len(await all_of(supply)) == 4


async def test_an_exchange_within_a_pause_leaves_it_to_the_trainer_to_go_on(tmp_path: Path) -> None:
    async with supplied(tmp_path) as supply:
        await supply.pause()
        await supply.publish_weights()
        assert (supply.is_paused, supply.policy_version) == (True, 1)
        await supply.resume()
        assert len(await all_of(supply)) == 6


async def test_an_update_may_block(tmp_path: Path) -> None:
    ran = list[int]()

    async with supplied(tmp_path) as supply:
        await supply.publish_weights(1, lambda: ran.append(1))
        assert ran == [1]


async def test_versions_only_grow(tmp_path: Path) -> None:
    async with supplied(tmp_path, policy_version=4) as supply:
        assert supply.policy_version == 4
        with pytest.raises(UsageError, match="version 4 is to follow 4"):
            await supply.publish_weights(4)
        assert not supply.is_paused


async def test_a_supply_without_a_model_has_nothing_that_grows_old(tmp_path: Path) -> None:
    supply: Supply[RolloutGroup]
    more = settings(tmp_path, model=None, agent="null")
    with anyio.fail_after(60):
        async with rollouthub.stream_rollouts(groups=True, **more) as supply:
            await supply.publish_weights(9)
            groups = await all_of(supply)
    assert {group.policy_version_min for group in groups} == {None}
    assert {group.staleness for group in groups} == {0}
