"""ROLL: its agent runner against a proxy like its own, a Gym-style environment, and filters of groups."""

import json
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from importlib import util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from anyio.from_thread import start_blocking_portal

from rollouthub import Stop
from rollouthub.trainers.roll import HubGroupFilter, HubSpreadFilter
from rollouthub.trainers.roll.gym import HubGem
from rollouthub.trainers.roll.play import stage
from rollouthub.trainers.roll.runner import played, result_of
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from tests.export.made import rollout, turn
from tests.local_server import serving
from tests.trainers.absent import Absent
from tests.trainers.seeing import GALLERY


@contextmanager
def proxy(asked: list[tuple[str, dict[str, Any]]], failing: int | None = None) -> Generator[str]:
    """A server that answers as ROLL's proxy does, for a policy that calls the calculator and repeats it."""

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        asked.append((request.headers["Authorization"], body))
        if failing == len(asked) - 1:
            return web.json_response({"error": "Episode finished"}, status=410)
        return web.json_response({"choices": [{"index": 0, "message": said_to(body["messages"])}]})

    @asynccontextmanager
    async def served() -> AsyncGenerator[str]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", complete)
        async with serving(app) as url:
            yield url

    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(served()) as address:
        yield address


def said_to(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What the policy says."""
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": f"It is {messages[-1]['content']}."}
    expression = messages[-1]["content"].partition("What is ")[2].partition("?")[0]
    function = {"name": "calculate", "arguments": json.dumps({"expression": expression})}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sums to play."""
    path = tmp_path / "roll.toml"
    path.write_text(
        'environments = ["arithmetic"]\nsplit = "train"\nlimit = 3\nset = { terms = 2, digits = 2 }\n'
        f'[training]\ndirectory = "{tmp_path}/runs"\n'
    )
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(path))
    yield
    THREAD_WORKERS.close()


def member(score: float, **told: Any) -> Any:
    """One of ROLL's batches, as far as filters look."""
    columns = {"traj_group_id": ["g"], "episode_scores": [score], "trajectory_data": [json.dumps(told)]}
    return SimpleNamespace(meta_info={}, non_tensor_batch=columns)


def test_a_seed_is_played_through_the_proxy_and_its_verdict_is_the_score(settings: None) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    with proxy(asked) as address:
        records = [played(stage(), address, 7, seed, {}) for seed in (4, 4, 5)]
        THREAD_WORKERS.close()
    first, second, other = (record for record in records if record is not None)
    assert {key for key, _ in asked} == {"Bearer 7"}
    assert asked[0][1]["tools"][0]["function"]["name"] == "calculate"
    assert asked[1][1]["messages"][-1]["tool_call_id"] == "call_1"
    assert (first.task.id, other.task.id) == ("train/1", "train/2")
    assert (first.seed, first.sample, second.sample) == (second.seed, 0, 1)
    assert first.seed != other.seed
    result = result_of(first)
    assert (result["status"], result["score"], result["step_scores"]) == ("Finished", 1.0, [0.0, 1.0])


def test_an_episode_that_broke_has_failed_and_its_group_is_dropped(settings: None) -> None:
    with proxy([], failing=1) as address:
        broken = played(stage(), address, 7, 0, {})
        THREAD_WORKERS.close()
    assert broken is not None
    assert len(broken.turns) == 1
    result = result_of(broken)
    assert result["status"] == "Failed"
    assert "410" in result["agent_exit_reason"]
    group = [member(1.0, finish_reason="finished"), member(result["score"], **result["metrics"])]
    assert HubGroupFilter(None, None, "train").filter(0, 0, group)


def test_a_group_of_equal_scores_is_dropped_in_training_alone_and_where_asked() -> None:
    group = [member(1.0), None, member(1.0)]
    assert HubSpreadFilter(None, None, "train").filter(0, 0, group)
    assert not HubSpreadFilter(None, None, "val").filter(0, 0, group)
    assert not HubGroupFilter(None, None, "train").filter(0, 0, group)
    assert not HubSpreadFilter(None, None, "train").filter(0, 0, [member(1.0), member(0.0)])


def test_a_turns_own_reward_is_its_steps_score() -> None:
    scored = rollout(turn(0, [1], [2], reward=0.25), turn(1, [1, 2], [3]), reward=0.5, stop=Stop.TURN_LIMIT)
    assert result_of(scored)["step_scores"] == [0.25, 0.5]


def test_an_episode_is_acted_in_step_by_step(settings: None) -> None:
    environment = HubGem()
    messages, info = environment.reset(seed=1)
    assert messages is not None
    assert info["tools"][0]["function"]["name"] == "calculate"
    call = said_to(messages)
    messages, reward, terminated, truncated, _ = environment.step(call)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    messages, reward, terminated, truncated, info = environment.step(said_to(messages)["content"] + "<|im_end|>")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert messages[-1]["content"].startswith("It is ")
    assert info["metrics"]["finish_reason"] == "finished"


@pytest.mark.live
def test_a_text_action_may_call_tools(settings: None) -> None:
    environment = HubGem()
    environment.reset(seed=0)
    messages, *_ = environment.step(
        '<tool_call>{"name": "calculate", "arguments": {"expression": "2 + 2"}}</tool_call>'
    )
    assert messages[-1] == {"role": "tool", "content": "4", "tool_call_id": messages[-2]["tool_calls"][0]["id"]}
    environment.close()


def test_a_second_seat_of_the_policys_fails_in_a_gym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "roll.toml"
    world = Path(__file__).with_name("handover.py")
    path.write_text(f'environments = ["{world}"]\n[training]\ndirectory = "{tmp_path}/runs"\n')
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(path))
    try:
        environment = HubGem()
        environment.reset(seed=0)
        *_, info = environment.step("done")
    finally:
        THREAD_WORKERS.close()
    assert "HubGemEnv takes actions for one seat" in info["failure_mode"]


class Reason(Enum):
    """ROLL's reasons to stop, given in place of an action."""

    MAX_LENGTH = "max_length"
    ABORT = "abort"


@pytest.mark.live
def test_a_limit_of_rolls_ends_the_episode_scored_and_an_abort_unscored(settings: None) -> None:
    environment = HubGem(max_steps=1)
    messages, _ = environment.reset(seed=1)
    assert messages is not None
    _, reward, terminated, truncated, info = environment.step(said_to(messages))
    assert (reward, terminated, truncated) == (0.0, True, True)
    assert "failure_mode" not in info
    environment.reset(seed=1)
    *_, truncated, _ = environment.step(Reason.MAX_LENGTH)
    assert truncated
    environment.reset(seed=1)
    *_, info = environment.step(Reason.ABORT)
    assert info["failure_mode"].startswith("unscored: ")
    assert HubGroupFilter(None, None, "train").filter(0, 0, [member(0.0, failure_info=info)])


# --- with ROLL's and GEM's own classes --------------------------------------------------------------------------------


@pytest.fixture
def roll(
    checkout: Callable[..., Path],
    system: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: None,
) -> Any:
    monkeypatch.chdir(tmp_path)  # it writes logs where it stands
    checkout("roll")
    system("omegaconf")
    return system("roll.utils.import_utils")


@pytest.mark.live
def test_roll_finds_its_runner_by_name_and_gets_its_own_results(roll: Any, system: Callable[[str], ModuleType]) -> None:
    base: Any = system("roll.pipeline.agentic.agent_runner.base")
    config: Any = system("omegaconf").OmegaConf.create({"max_steps": 4, "config": {"episodes": 1}})
    found = roll.safe_import_class("rollouthub.trainers.roll.HubAgentRunner")
    assert issubclass(found, base.AgentRunner)
    with proxy([]) as address:
        runner = found(base_url=address, env_id=3, env_config=config, worker_config=None)
        result, end = runner.run_job(11), runner.run_job(12)
        THREAD_WORKERS.close()
    assert isinstance(result, base.EpisodeResult)
    told = result.to_dict()
    assert (told["status"], told["score"], told["finish_reason"]) == ("Finished", 1.0, "finished")
    assert end.status == "NoData"
    assert roll.safe_import_class("rollouthub.trainers.roll.HubGroupFilter") is HubGroupFilter


@pytest.mark.live
def test_rolls_runner_fails_an_episode_whose_pictures_its_policy_would_not_see(
    roll: Any, system: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gallery.toml"
    path.write_text(
        f'environments = ["{GALLERY}"]\nset = {{ framed = true }}\n[training]\ndirectory = "{tmp_path}/runs"\n'
    )
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(path))
    config: Any = system("omegaconf").OmegaConf.create({"max_steps": 4, "config": {}})
    found = roll.safe_import_class("rollouthub.trainers.roll.HubAgentRunner")
    asked: list[tuple[str, dict[str, Any]]] = []
    with proxy(asked) as address:
        told = found(base_url=address, env_id=3, env_config=config, worker_config=None).run_job(0).to_dict()
        THREAD_WORKERS.close()
    assert told["status"] == "Failed"
    assert "would not see their pictures" in told["finish_reason"]
    assert asked == [], "nothing that was not seen is in a batch"


@pytest.mark.live
def test_gem_makes_the_environment_by_its_name(
    system: Callable[[str], ModuleType], settings: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if util.find_spec("reasoning_gym") is None:
        # Data sets that GEM lists when it is imported, and that nothing here is about.
        listed = Absent("reasoning_gym")
        monkeypatch.setattr(listed, "factory", SimpleNamespace(DATASETS={}), raising=False)
        monkeypatch.setitem(sys.modules, "reasoning_gym", listed)
    gem: Any = system("gem")
    gem.register("rollouthub", entry_point="rollouthub.trainers.roll:HubGemEnv")
    environment = gem.make("rollouthub", environment="arithmetic")
    assert isinstance(environment, gem.Env)
    messages, _ = environment.reset(seed=2)
    messages, *_ = environment.step(said_to(messages))
    _, reward, terminated, _, _ = environment.step(said_to(messages))
    assert (reward, terminated) == (1.0, True)
