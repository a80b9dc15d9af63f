"""Rewards of turns and of seats in veRL's own agent loops, and in the manager of its waiting trainers."""

import asyncio
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from rollouthub import Rollout
from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable, training_rows
from rollouthub.store import open_run
from rollouthub.trainers import verl as ours
from tests.trainers.rewarded import OPPOSED
from tests.trainers.rewarded_episodes import WORLDS, stepwise_scores
from tests.trainers.verl_engine import HandingClient
from tests.trainers.verl_set_up import System, prompts_batch, rows_of_tasks, run_loop, tiny_model, verl_config

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def client(system: System) -> HandingClient:
    system("verl.experimental.agent_loop.agent_loop")
    return HandingClient(system("verl.workers.rollout.replica").TokenOutput)


def config_of(system: System, folder: Path, world: str, rewards: str = "verdict", **run: Any) -> Any:
    """veRL's configuration for a world of `rewarded.py`."""
    training = {"directory": str(folder / "runs"), **run}
    return verl_config(
        system,
        folder,
        tiny_model(system, folder / "tiny"),
        entry={"rewards": rewards},
        environments=[f"{WORLDS}:{world}"],
        training=training,
    )


def tasks_of(folder: Path, world: str) -> list[dict[str, Any]]:
    return rows_of_tasks(folder, 1, f"{WORLDS}:{world}", "test")


def records(folder: Path) -> dict[str, Rollout]:
    """What the hub has on record, by its ids."""
    (directory,) = (folder / "runs").iterdir()
    with open_run(directory) as reader:
        return {each.rollout_id: each for each in reader.rollouts()}


async def test_the_loop_gives_v1_the_rewards_of_turns_by_token(
    system: System, client: HandingClient, tmp_path: Path
) -> None:
    config = config_of(system, tmp_path, "Stepwise", "turns")
    (task,) = await anyio.to_thread.run_sync(tasks_of, tmp_path, "Stepwise")
    (output,) = await run_loop(system, config, client, task, uid="u", session_id=0)
    (record,) = records(tmp_path).values()
    (row,) = training_rows(record)
    assert output.as_dict()["rm_scores"].tolist() == stepwise_scores(row)
    with pytest.raises(ConfigError, match=r"veRL's own workers of trainer\.use_v1=False put one reward on the last"):
        await run_loop(system, config, client, task, uid="u")


async def test_the_loop_trains_the_seat_that_is_named_and_no_other(
    system: System, client: HandingClient, tmp_path: Path
) -> None:
    (task,) = await anyio.to_thread.run_sync(tasks_of, tmp_path, "Opposed")
    with pytest.raises(NotTrainable, match="giver, taker are trained, and an agent loop of veRL's takes one"):
        await run_loop(system, config_of(system, tmp_path, "Opposed"), client, task, uid="u", session_id=0)
    config = config_of(system, tmp_path, "Opposed", directory=str(tmp_path / "other"), seat="taker")
    (output,) = await run_loop(system, config, client, task, uid="u", session_id=0)
    assert output.extra_fields["extras"]["seat"] == "taker"
    assert output.as_dict()["rm_scores"].sum().item() == output.reward_score
    assert output.reward_score in OPPOSED["taker"]


@pytest.mark.parametrize("rewards", ["verdict", "turns"])
def test_the_manager_has_the_rewards_of_turns_on_their_tokens(
    system: System, client: HandingClient, tmp_path: Path, rewards: str
) -> None:
    config = config_of(system, tmp_path, "Stepwise", rewards)
    manager = ours.HubAgentLoopManager.create(config=config, llm_client=client)
    data = manager.generate_sequences(prompts_batch(system, tasks_of(tmp_path, "Stepwise"), 2))
    known = records(tmp_path)
    for place in range(2):
        (row,) = training_rows(known[data.non_tensor_batch["extras"][place]["rollout_id"]])
        wanted = stepwise_scores(row) if rewards == "turns" else [0.0] * (len(row.response_ids) - 1) + [row.reward]
        found = data.batch["rm_scores"][place].tolist()
        assert found == [*wanted, *[0.0] * (len(found) - len(wanted))]


@pytest.mark.parametrize("seat", [*OPPOSED, None])
def test_the_manager_has_the_rewards_of_the_seat_that_is_named(
    system: System, client: HandingClient, tmp_path: Path, seat: str | None
) -> None:
    config = config_of(system, tmp_path, "Opposed", **({} if seat is None else {"seat": seat}))
    batch = prompts_batch(system, tasks_of(tmp_path, "Opposed"), 2)
    data = ours.HubAgentLoopManager.create(config=config, llm_client=client).generate_sequences(batch)
    learnt = data.batch["response_mask"].sum(-1).tolist()
    if seat is None:
        assert learnt == [0, 0]
        assert [each["refusal"] for each in data.non_tensor_batch["extras"]] == ["several_seats"] * 2
    else:
        known, scores = records(tmp_path), data.batch["rm_scores"].sum(-1).tolist()
        named = [known[each["rollout_id"]] for each in data.non_tensor_batch["extras"]]
        assert scores == [each.reward_of(seat) for each in named]
        assert sorted(scores) == [0.0, 1.0]
        rows = [next(row for row in training_rows(each) if row.seat == seat) for each in named]
        assert learnt == [sum(row.response_mask) for row in rows]


def test_verls_own_workers_refuse_rewards_of_turns_before_anything_is_played(
    system: System, client: HandingClient, tmp_path: Path
) -> None:
    agent_loop = system("verl.experimental.agent_loop.agent_loop")
    config = config_of(system, tmp_path, "Stepwise", "turns")
    batch = prompts_batch(system, tasks_of(tmp_path, "Stepwise"), 2)
    with pytest.raises(ConfigError, match="HubAgentLoopManager"):
        asyncio.run(agent_loop.AgentLoopWorker(config, client).generate_sequences(batch))
    assert not client.handing.said
