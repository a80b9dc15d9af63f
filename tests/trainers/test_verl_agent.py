"""verl-agent: batches in lock-step over real episodes. Those marked live take longer, and need nothing else."""

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Rollout
from rollouthub.export import NotTrainable, TaskReference
from rollouthub.trainers.verl_agent import HubEnvironmentManager, observation, project, step_rows
from rollouthub.trainers.workers.worker_settings import settings_of
from rollouthub.values import Int32s
from tests.export.made import rollout, turn

WORLD = str(Path(__file__).parent / "stream" / "world.py")
HANDOVER = str(Path(__file__).parent / "handover.py")


def opened(folder: Path, environment: str = "arithmetic", world: dict[str, Any] | None = None, **more: Any) -> Any:
    settings = settings_of(
        {"environments": [environment], "set": world or {}, "training": {"directory": str(folder)}}, "test"
    )
    chosen: dict[str, Any] = {"max_steps": 3, "group_size": 2, "batch_size": 2, **more}
    return HubEnvironmentManager(settings, **chosen)


@pytest.fixture
def manager(tmp_path: Path) -> Generator[HubEnvironmentManager]:
    with opened(tmp_path) as made:
        yield made


def asked(text: str) -> str:
    found = re.search(r"What is (.+)\?", text)
    assert found is not None
    return found[1]


def call(expression: str) -> str:
    return f"<tool_call>{json.dumps({'name': 'calculate', 'arguments': {'expression': expression}})}</tool_call>"


def kept(manager: HubEnvironmentManager) -> list[Rollout]:
    return [each for each in manager.rollouts if each is not None]


def test_a_batch_is_played_in_lock_step_and_won_where_the_verifier_says_so(manager: HubEnvironmentManager) -> None:
    observed, infos = manager.reset()
    assert len(observed["text"]) == 4
    assert observed["anchor"][0] == observed["anchor"][1] != observed["anchor"][2]
    assert "calculate" in observed["text"][0]
    assert [info["won"] for info in infos] == [False] * 4
    questions = [asked(text) for text in observed["text"]]

    observed, rewards, dones, infos = manager.step([call(question) for question in questions])
    assert rewards.tolist() == [0.0] * 4
    assert dones.tolist() == [False] * 4
    assert [info["tool_calling"] for info in infos] == [1] * 4
    results = observed["anchor"]

    right, wrong = [f"It is {result}." for result in results], ["It is -1."] * 4
    _, rewards, dones, infos = manager.step([right[0], wrong[1], wrong[2], right[3]])
    assert rewards.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert dones.tolist() == [True] * 4
    assert [info["won"] for info in infos] == [True, False, False, True]
    first, second, third, _ = kept(manager)
    assert first.group_id == second.group_id != third.group_id
    assert [len(each.turns) for each in kept(manager)] == [2] * 4


def test_a_call_that_cannot_be_read_is_not_made_and_said_to_be_invalid(manager: HubEnvironmentManager) -> None:
    before, _ = manager.reset()
    observed, _, dones, infos = manager.step(["<tool_call>{broken", call("1 + 1"), call("1 + 1"), "It is 2."])
    assert [bool(info["is_action_valid"]) for info in infos] == [False, True, True, True]
    assert observed["text"][0].startswith(before["text"][0])
    assert "could not be read" in observed["text"][0]
    assert dones.tolist() == [False, False, False, True]


@pytest.mark.live
def test_after_the_last_step_an_episode_ends_as_it_is_and_is_scored(manager: HubEnvironmentManager) -> None:
    manager.reset()
    for _ in range(3):
        _, rewards, dones, _ = manager.step([call("1 + 1")] * 4)
    assert dones.tolist() == [True] * 4  # pyright: ignore[reportPossiblyUnboundVariable]  # three steps were taken
    assert rewards.tolist() == [0.0] * 4  # pyright: ignore[reportPossiblyUnboundVariable]
    assert [len(each.turns) for each in kept(manager)] == [3] * 4
    assert all(each.reward is not None for each in kept(manager))


@pytest.mark.live
def test_rows_say_which_tasks_are_played_and_a_batch_may_be_left_unfinished(manager: HubEnvironmentManager) -> None:
    manager.reset()
    references = [{"task": str(TaskReference("arithmetic", "train", f"train/{place // 2}"))} for place in range(4)]
    manager.reset(references)
    manager.step(["It is 1."] * 4)
    assert [each.task.id for each in kept(manager)] == ["train/0", "train/0", "train/1", "train/1"]


def test_an_unscored_episode_is_dropped_before_any_advantage(tmp_path: Path) -> None:
    with opened(tmp_path, WORLD, {"broken": 2, "size": 2}, group_size=1) as manager:
        manager.reset()
        _, rewards, _, infos = manager.step(["done", "done"])
        rows: list[list[dict[str, Any]]] = [[{"active_masks": True}] for _ in range(2)]
        manager.success_evaluator(
            total_infos=[[info] for info in infos], total_batch_list=rows, episode_rewards=rewards
        )
    assert [info["refusal"] for info in infos] == ["unscored", None]
    assert [each[0]["active_masks"] for each in rows] == [False, True]


@pytest.mark.live
def test_an_episode_that_ends_by_a_limit_of_its_own_is_rewarded_once(tmp_path: Path) -> None:
    settings = settings_of(
        {"environments": [WORLD], "limits": {"max_seconds": 1e-6}, "training": {"directory": str(tmp_path)}}, "test"
    )
    with HubEnvironmentManager(settings, max_steps=3) as manager:
        manager.reset()
        _, first, dones, _ = manager.step(["done"])
        _, second, _, _ = manager.step(["done"])
    assert dones.tolist() == [True]
    assert (first.tolist(), second.tolist()) == ([1.0], [0.0])


@pytest.mark.live
def test_a_batch_without_any_score_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, WORLD, {"broken": 1, "size": 2}, group_size=1) as manager:
        manager.reset()
        with pytest.raises(Exception, match="no episode of the batch was scored"):
            manager.success_evaluator(total_infos=[[], []], total_batch_list=[[], []])


def test_a_second_seat_of_the_policys_is_refused_and_its_episode_not_learnt_from(tmp_path: Path) -> None:
    """The loop's action would be taken for either seat's."""
    with opened(tmp_path, HANDOVER, group_size=1, batch_size=1) as manager:
        manager.reset()
        _, _, dones, infos = manager.step(["done"])
        (record,) = kept(manager)
    assert dones.tolist() == [True]
    assert infos[0]["refusal"] == "unscored"
    assert any("acts at one seat, and the policy plays" in fault.message for fault in record.faults)


def test_an_observation_keeps_the_task_and_the_latest_steps() -> None:
    spoken = rollout()
    messages = [message for each in spoken.turns for message in (*each.messages, each.response)]
    text = observation(messages, (), history_length=0)
    assert text.startswith("asked 0")
    assert "said 1" in text
    assert "said 0" not in text
    assert "said 0" in observation(messages, (), history_length=1)


def test_a_call_of_no_tool_is_invalid() -> None:
    assert not project(call("1"), ()).is_valid
    assert project("It is 2.", ()).is_valid


def test_every_turn_makes_a_row_with_the_ids_it_was_sampled_after() -> None:
    spoken = rollout(turn(0, [1, 2, 3], [4, 5], reward=0.25), turn(1, [9, 8], [7]), reward=1.0)
    first, second = step_rows(spoken)
    assert (first["prompt_ids"], first["response_ids"]) == ([1, 2, 3], [4, 5])
    assert (second["prompt_ids"], second["response_ids"]) == ([9, 8], [7])
    assert first["rollout_log_probs"] == [-0.125, -0.25]
    assert (first["rewards"], second["rewards"]) == (0.25, 1.0)
    assert (first["returns"], second["returns"]) == (1.25, 1.0)
    assert first["uid"] == second["uid"] == "g1"
    assert first["traj_uid"] == second["traj_uid"] == "g1-0"
    assert (first["anchor_obs"], second["anchor_obs"]) == ("asked 0", "asked 1")
    assert first["episode_rewards"] == 1.0


def test_a_rows_mask_is_its_turns() -> None:
    [row] = step_rows(rollout(turn(0, [1], [2, 3], output_mask=Int32s([0, 1]))))
    assert row["response_mask"] == [0, 1]


def test_an_unscored_rollout_makes_no_step_rows() -> None:
    with pytest.raises(NotTrainable, match="unscored"):
        list(step_rows(rollout(reward=None)))
