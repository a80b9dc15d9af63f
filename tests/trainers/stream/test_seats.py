"""A supply of an environment with several seats: a row for each seat that learns, worth what that seat earned."""

from pathlib import Path
from typing import Any

import anyio
import pytest

import rollouthub
from rollouthub import RolloutGroup, UsageError
from rollouthub.engine.seat_config import SeatConfig
from rollouthub.export.batch import batch_rows
from rollouthub.models.config import ModelConfig
from tests.models.servers import Script, say

DUEL = str(Path(__file__).with_name("duel.py"))
OPPONENT = "mock/say?text=en garde"


async def groups_of(folder: Path, **settings: Any) -> list[RolloutGroup]:
    asked: Any = {"model": "mock/say?text=have at you", "drop_constant": True, "repeats": 2, **settings}
    with anyio.fail_after(30):
        asked |= {"environments": (DUEL,), "directory": folder / "run"}
        async with rollouthub.stream_rollouts(groups=True, **asked) as supply:
            return [group async for group in supply]


@pytest.mark.parametrize(
    "player",
    [
        OPPONENT,
        f"{OPPONENT}@single_turn",
        {"model": OPPONENT, "agent": "single_turn", "sampling": {"temperature": 0.5}},
        {"model": {"name": OPPONENT}},
        SeatConfig(model=ModelConfig(name=OPPONENT)),
    ],
    ids=["word", "word with agent", "dict", "model as dict", "SeatConfig"],
)
async def test_only_the_seat_that_learns_makes_rows(player: Any, tmp_path: Path) -> None:
    groups = await groups_of(tmp_path, seats={"right": player})
    assert len(groups) == 2
    for group in groups:
        assert not group.is_constant
        assert set(group.rewards) == {0.5}
        rows = batch_rows([group], "leave_one_out").rows
        assert {row.segment.agent for row, _ in rows} == {"left"}
        assert sorted((row.reward, advantage) for row, advantage in rows) == [(0.0, -1.0), (1.0, 1.0)]
        assert group.rollouts[0].model_of("right") == OPPONENT


async def test_a_policy_at_both_seats_learns_from_both(tmp_path: Path) -> None:
    for group in await groups_of(tmp_path):
        rows = batch_rows([group], "leave_one_out").rows
        made = sorted((row.segment.agent, row.reward, advantage) for row, advantage in rows)
        assert made == [
            ("left", 0.0, -1.0),
            ("left", 1.0, 1.0),
            ("right", 0.0, -1.0),
            ("right", 1.0, 1.0),
        ]


async def test_the_opponent_may_be_an_earlier_runs_policy(tmp_path: Path) -> None:
    await groups_of(tmp_path / "old", model="mock/say?text=older")
    groups = await groups_of(tmp_path / "new", seats={"right": f"run:{tmp_path / 'old' / 'run'}"})
    for group in groups:
        for rollout in group.rollouts:
            assert {turn.agent: turn.response.text for turn in rollout.turns} == {
                "left": "have at you",
                "right": "older",
            }
        assert {row.segment.agent for row, _ in batch_rows([group], "leave_one_out").rows} == {"left"}


async def test_a_seat_that_nobody_has_is_refused_before_anything_is_begun(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'right'"):
        await groups_of(tmp_path, seats={"rigth": OPPONENT})
    assert not (tmp_path / "run" / "run.db").exists()


async def test_the_policy_meets_older_versions_of_itself_which_the_record_names(tmp_path: Path) -> None:
    newest, first, second = (
        Script(say("new")),
        Script(say("one", weight_version=1)),
        Script(say("two", weight_version=2)),
    )
    async with newest.serve() as policy, first.serve() as old, second.serve() as older:
        pool = [{"model": {"name": "hosted_vllm/v1", "base_url": old}, "version": 1}]
        asked = rollouthub.stream_rollouts(
            environments=(DUEL,),
            model="hosted_vllm/policy",
            base_url=(policy,),
            seats={"right": {"pool": pool}},
            directory=tmp_path / "run",
            repeats=3,
            epochs=6,
            seed=1,
            max_staleness=0,
            batch=1,
            policy_version=7,
        )
        groups: list[RolloutGroup] = []
        with anyio.fail_after(60):
            async with asked as supply:
                groups.append(await anext(supply))
                with pytest.raises(UsageError, match="seat 'left' has no pool"):
                    await supply.add_opponent("left", "hosted_vllm/v2")
                await supply.add_opponent("right", ModelConfig(name="hosted_vllm/v2", base_url=older), version=2)
                groups += [group async for group in supply]
    assert len(groups) == 12, "no group is stale for an opponent's age"
    met = [{(each.seats["right"].model, each.seats["right"].version) for each in group.rollouts} for group in groups]
    assert all(len(opponents) == 1 for opponents in met), "all samples of a group meet one opponent"
    assert {each for opponents in met for each in opponents} == {("hosted_vllm/v1", 1), ("hosted_vllm/v2", 2)}
    for group, [(_, version)] in zip(groups, met, strict=True):
        for rollout in group.rollouts:
            assert {turn.agent: (turn.response.text, turn.policy_version) for turn in rollout.turns} == {
                "left": ("new", 7),
                "right": ({1: "one", 2: "two"}[version or 0], version),
            }
            assert (rollout.policy_version_min, rollout.policy_version_max) == (7, 7)
            assert {turn.agent for turn in rollout.policy_turns} == {"left"}
    assert {body["model"] for body in second.asked} == {"v2"}
