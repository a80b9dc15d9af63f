"""Verdicts on groups, in each trainer that has a whole group in hand: its members wait for it, and learn from it.

veRL's V1 trainer has its test in `test_verl_v1_live.py`, verl-agent in `drive_verl_agent_groups.py`.
"""

import asyncio
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest
import typing_extensions

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.models.credentials import Credentials
from rollouthub.models.mock.mock_server import serve_mock
from rollouthub.store import open_run
from rollouthub.trainers import agent_lightning, areal, marti, openrlhf, skyrl, verl
from rollouthub.trainers import slime as our_slime
from rollouthub.trainers.nemo_rl import gym_rows
from rollouthub.trainers.nemo_rl.gym import gym_class
from rollouthub.trainers.roll.play import stage
from rollouthub.trainers.stream import blocking_worker, rollout_worker
from rollouthub.trainers.trl import HubSpec, hub_reward, prompts_of, rollout_func
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from tests.models.tokens.chatml import ChatMl
from tests.trainers import test_areal, test_marti, test_nemo_rl_live, test_slime, test_trl_live
from tests.trainers.rewarded import ranks
from tests.trainers.rewarded_episodes import RANKED, Handing, ranked_task
from tests.trainers.verl_engine import HandingClient
from tests.trainers.verl_set_up import System, prompts_batch, rows_of_tasks, tiny_model, verl_config

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]
NOBODY = Credentials({})
SIZE = 4
nemo, slime, arguments, tiny = test_nemo_rl_live.nemo, test_slime.slime, test_slime.arguments, test_trl_live.tiny
"""Fixtures of the trainers' own tests."""


def playing(folder: Path, **more: Any) -> dict[str, Any]:
    return {"environments": [RANKED], "training": {"directory": str(folder / "runs")}, "track": [], **more}


@dataclass
class Engine:
    """A policy behind whichever method a trainer's engine has."""

    handing: Handing = field(default_factory=Handing)
    model_name: str = "tiny"
    weight_version: int = 1
    system: Callable[[str], ModuleType] | None = None

    async def generate(self, asked: dict[str, Any], model: str | None = None) -> dict[str, Any]:
        """SkyRL's."""
        ids = self.handing.answer(asked["prompt_token_ids"][0], asked["session_ids"][0])
        return {"response_ids": [ids], "stop_reasons": ["stop"], "response_logprobs": [[-0.25] * len(ids)]}

    async def agenerate(self, request: Any) -> Any:
        """AReaL's."""
        assert self.system is not None
        ids = self.handing.answer(request.input_ids, request.rid)
        return self.system("areal.api").ModelResponse(
            input_tokens=list(request.input_ids),
            output_tokens=ids,
            output_logprobs=[-0.25] * len(ids),
            output_versions=[1] * len(ids),
            stop_reason="stop",
        )


def test_verls_manager_gives_a_batch_with_the_verdicts_of_its_groups(system: System, tmp_path: Path) -> None:
    system("verl.experimental.agent_loop.agent_loop")
    configured = verl_config(system, tmp_path, tiny_model(system, tmp_path / "tiny"), environments=[RANKED])
    client = HandingClient(system("verl.workers.rollout.replica").TokenOutput)
    manager = verl.HubAgentLoopManager.create(config=configured, llm_client=client)
    batch = prompts_batch(system, rows_of_tasks(tmp_path, 1, RANKED, "test") * 2, SIZE)
    data = manager.generate_sequences(batch)
    scores = data.batch["rm_scores"].sum(-1).tolist()
    assert [sorted(scores[:SIZE]), sorted(scores[SIZE:])] == [pytest.approx(ranks(SIZE))] * 2
    (directory,) = (tmp_path / "runs").iterdir()
    with open_run(directory) as reader:
        earned = {each.rollout_id: each.reward for each in reader.rollouts()}
    assert scores == pytest.approx([earned[each["rollout_id"]] for each in data.non_tensor_batch["extras"]])
    assert data.non_tensor_batch["is_scored"].tolist() == [1.0] * 2 * SIZE


def test_verls_own_workers_ask_one_by_one_and_are_told_what_to_take(system: System, tmp_path: Path) -> None:
    agent_loop = system("verl.experimental.agent_loop.agent_loop")
    configured = verl_config(system, tmp_path, tiny_model(system, tmp_path / "tiny"), environments=[RANKED])
    client = HandingClient(system("verl.workers.rollout.replica").TokenOutput)
    batch = prompts_batch(system, rows_of_tasks(tmp_path, 1, RANKED, "test"), SIZE)
    with pytest.raises(ConfigError, match=r"veRL's own workers ask for them one by one.*HubAgentLoopManagerTQ"):
        asyncio.run(agent_loop.AgentLoopWorker(configured, client).generate_sequences(batch))


async def test_skyrls_generator_gives_a_batch_with_the_verdicts_of_its_groups(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.version_info < (3, 12):
        monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    base, checks = system("skyrl.train.generators.base"), system("skyrl.train.utils.trainer_utils")
    generator = skyrl.HubGenerator(Engine(), ChatMl(), playing(tmp_path))
    asked: dict[str, Any] = {
        "prompts": [[]] * 2 * SIZE,
        "env_extras": [{"rollouthub": str(ranked_task())}] * 2 * SIZE,
        "trajectory_ids": [base.TrajectoryID(prompt, place) for prompt in "ab" for place in range(SIZE)],
    }
    try:
        output = await generator.generate(asked)
    finally:
        await generator.close()
    checks.validate_generator_output(2 * SIZE, output)
    assert output["rewards"] == pytest.approx([*ranks(SIZE), *ranks(SIZE)])


async def test_areals_grouped_workflow_gives_a_group_with_its_verdict(system: System, tmp_path: Path) -> None:
    remote, context = system("areal.infra.remote_inf_engine"), system("areal.infra.workflow_context")
    logger = system("areal.utils.logging").getLogger("test")
    gconfig = system("areal.api.cli_args").GenerationHyperparameters(n_samples=SIZE)
    workflow = areal.HubWorkflow(test_areal.Tokenizer(), playing(tmp_path), gconfig)
    row = {"rollouthub": str(ranked_task())}
    engine = Engine(system=system)
    try:
        context.set(context.WorkflowContext(task_id=3))
        found = await remote.GroupedRolloutWorkflow(workflow, SIZE, logger).arun_episode(engine, row)
        context.set(context.WorkflowContext(task_id=4))
        with pytest.raises(ConfigError, match=r"more than the 4 members of a group that gconfig\.n_samples names"):
            await remote.GroupedRolloutWorkflow(workflow, SIZE + 1, logger).arun_episode(engine, row)
    finally:
        await workflow.close()
    assert found["rewards"].tolist() == pytest.approx(ranks(SIZE))


def test_slime_gets_batches_with_the_verdicts_of_their_groups(
    slime: Any,
    arguments: Callable[..., Any],
    tmp_path: Path,
) -> None:
    settings = tmp_path / "slime.toml"
    settings.write_text(f'environments = ["{RANKED}"]\n[training]\ndirectory = "{tmp_path}/runs"\n')

    class Source:
        """One group after another."""

        groups = 0

        def get_samples(self, count: int) -> list[list[Any]]:
            begin, self.groups = self.groups, self.groups + count
            return [
                [
                    slime.Sample(group_index=group, index=group * SIZE + place, label=str(ranked_task()))
                    for place in range(SIZE)
                ]
                for group in range(begin, begin + count)
            ]

    class Giver:
        """A speaker of `Handing`'s words."""

        def __init__(self) -> None:
            self.handing = Handing()
            self.said = self.handing.said

        def speak(self, prompt_ids: list[int]) -> Any:
            ids = self.handing.answer(prompt_ids, "")
            return SimpleNamespace(token_ids=ids, logprobs=[-0.25] * len(ids))

    speaker: Any = Giver()
    with test_slime.sglang(speaker, {}) as port:
        args = arguments(port)
        out = import_module("slime.rollout.base_types").call_rollout_fn(
            our_slime.generate_rollout, args, 0, Source(), evaluation=False
        )
        alone = slime.Sample(group_index=9, index=99, label=str(ranked_task()))
        run = import_module("slime.utils.async_utils").run
        with pytest.raises(ConfigError, match=r"slime's own loop asks for them one by one.*generate_rollout"):
            run(our_slime.generate(args, alone, {"max_new_tokens": 256}))
        THREAD_WORKERS.close()
    assert [[sample.reward for sample in group] for group in out.samples] == [pytest.approx(ranks(SIZE))] * 2


def test_trls_trainer_has_the_advantages_of_a_groups_verdict(
    system: System,
    tiny: tuple[Any, Any],
    tmp_path: Path,
) -> None:
    trl, (model, tokenizer) = system("trl"), tiny
    model.resize_token_embeddings(300)
    opening = rollout_worker(
        environments=(RANKED,), model="mock/say?text=done", directory=tmp_path / "run", credentials=NOBODY
    )
    with blocking_worker(opening) as worker:
        made = test_trl_live.config(trl, tmp_path, shuffle_dataset=False, scale_rewards="none")
        made.num_generations = SIZE
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=hub_reward,
            args=made,
            train_dataset=prompts_of(worker),
            rollout_func=rollout_func(worker, moves_weights=True),
            processing_class=tokenizer,
        )
        rows = [dict(prompts_of(worker)[0]) for _ in range(SIZE)]
        learnt = trainer._generate_and_score_completions(rows)
        mean = sum(ranks(SIZE)) / SIZE
        assert learnt["advantages"].tolist() == pytest.approx([rank - mean for rank in ranks(SIZE)], abs=1e-5)
        with pytest.raises(ConfigError, match="2 of the 4 members of group"):
            trainer._generate_and_score_completions(rows[:2])
    with pytest.raises(ConfigError, match="TRL asks for the reward of one"), HubSpec([RANKED], credentials=NOBODY):
        pass


async def test_nemo_rls_actor_plays_groups_with_their_verdicts(
    nemo: Callable[[str], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nemo("nemo_rl.environments.nemo_gym")
    monkeypatch.chdir(tmp_path)
    public: Any = SimpleNamespace(id="only", prompt="count", system=None, messages=())
    rows = list(gym_rows([public], "rewarded", "test")) * SIZE
    is_up, ports, found = anyio.Event(), list[int](), dict[int, Any]()

    def ready(port: int) -> None:
        ports.append(port)
        is_up.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(serve_mock, "mock/say?text=done", "127.0.0.1", 0, ready=ready))
        await is_up.wait()
        configured = {
            "model_name": "mock/say",
            "base_urls": [f"http://127.0.0.1:{ports[0]}/v1"],
            "initial_global_config_dict": {"rollouthub": {"environments": [RANKED]}},
        }
        gym = gym_class()(configured)
        await anyio.to_thread.run_sync(gym._spinup)
        gym.set_tokenizer(test_nemo_rl_live.Tokenizer())
        asked = [{**row, "_rowidx": place} for place, row in enumerate(rows)]
        async for place, result, _ in gym.run_rollouts(asked, "timing"):
            found[place] = result["full_result"]["reward"]
        await anyio.to_thread.run_sync(gym.shutdown)
        tasks.cancel_scope.cancel()
    assert [found[place] for place in range(SIZE)] == pytest.approx(ranks(SIZE))


@pytest.mark.parametrize("system_name", ["openrlhf", "roll", "areal", "marti", "agent-lightning"])
async def test_who_asks_one_by_one_is_refused_when_it_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system_name: str
) -> None:
    settings = tmp_path / "play.toml"
    settings.write_text(f'environments = ["{RANKED}"]\n[training]\ndirectory = "{tmp_path}/runs"\n')
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(settings))
    label = str(TaskReference("rewarded", "test", "only"))
    params = SimpleNamespace(temperature=1.0, top_p=1.0, max_tokens=16, logprobs=1)
    with pytest.raises(ConfigError, match=r"scores all samples of a task together.*asks for its samples one by one"):
        if system_name == "openrlhf":
            await openrlhf.execute("p", label, params, 64, ChatMl(), Engine())  # pyright: ignore[reportArgumentType]
        elif system_name == "roll":
            await anyio.to_thread.run_sync(lambda: stage().thread_worker)
        elif system_name == "marti":
            await marti.workflow("p", label, [test_marti.agent("agent", 0)], None, "math", {}, max_length=64)
        elif system_name == "agent-lightning":
            async with agent_lightning.open_runner("http://127.0.0.1:1", "k"):
                pass
        else:
            await areal.HubAgent().run({"rollouthub": label}, base_url="http://127.0.0.1:1")
    THREAD_WORKERS.close()
