"""MARTI: each agent plays a seat on its own engine, and has its own turns and rewards."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rollouthub.export import Credit, NotTrainable
from rollouthub.trainers import marti as ours
from rollouthub.trainers import marti_workflow
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from tests.export.made import forked, rollout, turn
from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.trainers.absent import Absent, absent
from tests.trainers.seeing import GALLERY

LABEL = json.dumps({"environment": "handover", "split": "test", "task_id": "only"})
CALLS: dict[str, dict[str, Any]] = {
    "giver": {"name": "give", "arguments": {"thing": "apple"}},
    "taker": {"name": "take", "arguments": {}},
}


class Actor:
    """An engine as MARTI hands it out: a method with `remote`, whose answer is awaited."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.said: list[tuple[list[int], list[int]]] = []
        self.generate_async = SimpleNamespace(remote=self._remote)

    def _remote(self, prompt_ids: list[int], sampling_params: Any) -> Any:
        tokenizer = ChatMl()
        words = "done" if self.said else f"<tool_call>\n{json.dumps(CALLS[self.role])}\n</tool_call>"
        ids = [*odd_ids(words, len(prompt_ids)), tokenizer.end]
        self.said.append((list(prompt_ids), ids))
        logprobs = [{token: SimpleNamespace(logprob=-0.25)} for token in ids]
        output = SimpleNamespace(token_ids=ids, logprobs=logprobs, finish_reason="stop")
        future = asyncio.get_running_loop().create_future()
        future.set_result(SimpleNamespace(outputs=[output]))
        return future


def agent(role: str, number: int = 0, *, logprobs: int | None = 1) -> dict[str, Any]:
    """An agent as MARTI describes it."""
    params = SimpleNamespace(temperature=1.0, top_p=1.0, max_tokens=128, logprobs=logprobs)
    return {
        "agent_id": number,
        "agent_role": role,
        "llm": Actor(role),
        "tokenizer": ChatMl(),
        "sampling_params": params,
    }


def actor_of(agents: list[dict[str, Any]], step: dict[str, Any]) -> tuple[Actor, int]:
    """Whose engine a step came from, and which of its answers it is."""
    index: int = step["agent_index"]
    return agents[index]["llm"], step["turn_id"]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The world of two seats."""
    path = tmp_path / "marti.toml"
    world = Path(__file__).with_name("handover.py")
    path.write_text(f'environments = ["{world}"]\n[training]\ndirectory = "{tmp_path}/runs"\n')
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(path))
    yield
    THREAD_WORKERS.close()


async def test_each_agents_turns_are_its_own_engines_ids_and_the_verdict_is_everyones(settings: None) -> None:
    agents = [agent("taker", 0), agent("giver", 1)]
    result = await ours.workflow("hand it over", LABEL, agents, None, "math", {}, max_length=4096, is_eval=False)
    assert result["final_reward"] == 1.0
    assert result["reward_matrix"] == [[1.0, 1.0], [1.0, 1.0]]
    assert len(result["trajectory"]) == 4
    for step in result["trajectory"]:
        actor, turn_id = actor_of(agents, step)
        prompt, ids = actor.said[turn_id]
        assert step["output_ids"] == ids
        assert step["sequence_ids"] == prompt + ids
        assert step["rollout_log_prob"] == [0.0] * len(prompt) + [-0.25] * len(ids)
        assert step["agent_role"] == ("taker", "giver")[step["agent_index"]]


def test_a_turn_has_what_follows_it_discounted() -> None:
    scored = rollout(turn(0, [1], [2, 3], reward=0.5), turn(1, [1, 2, 3, 4], [5]), reward=1.0)
    made = ours.result_of(scored, "p", LABEL, [agent("agent", 3)], credit=Credit(discount=0.5))
    assert made["reward_matrix"] == [[1.0, 1.0]]
    assert made["final_reward"] == 1.0
    assert made["trajectory"][1] == {
        "turn_id": 1,
        "agent_index": 0,
        "agent_id": 3,
        "agent_name": 3,
        "agent_role": "agent",
        "agent_input": "asked 1",
        "agent_output": "said 1",
        "output_ids": [5],
        "sequence_ids": [1, 2, 3, 4, 5],
        "rollout_log_prob": [0.0, 0.0, 0.0, 0.0, -0.125],
        "reward": 1.0,
        "metadata": {"turn": 1},
    }


def test_a_step_for_each_agent_masks_what_its_environment_wrote() -> None:
    made = ours.result_of(forked(), "p", LABEL, [agent("agent", logprobs=None)], per="agent", is_nested=True)
    [[step]] = made["trajectory"]
    assert step["sequence_ids"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert step["output_ids"] == [4, 5, 6, 7, 8]
    assert step["action_mask"] == [1, 1, 0, 1, 1]
    assert step["rollout_log_prob"] is None
    assert step["metadata"]["left_out_rows"] == 1


def test_what_was_not_scored_makes_no_trajectory() -> None:
    with pytest.raises(NotTrainable, match="unscored"):
        ours.result_of(rollout(reward=None), "p", LABEL, [agent("agent")])


# --- with MARTI's own classes -----------------------------------------------------------------------------------------


@pytest.fixture
def marti(checkout: Callable[..., Path], system: Callable[[str], ModuleType]) -> Iterator[Callable[[str], Any]]:
    """Its modules; what they import of engines and optimisers, of which nothing is called here, need not be there."""
    checkout("marti")
    for module in ("ray", "torch", "transformers"):
        system(module)
    with absent("deepspeed", "flash_attn", "json5", "latex2sympy2", "peft", "srsly", "vllm", "wandb"):
        # Written for an older MCP SDK.
        sys.modules["marti.agent_workflows.tools.mcp_manager"] = Absent("marti.agent_workflows.tools.mcp_manager")
        yield import_module


@pytest.mark.live
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what it imports
async def test_martis_wrapper_runs_the_workflow_and_its_generator_makes_samples(
    marti: Callable[[str], Any], settings: None
) -> None:
    wrapper = marti("marti.agent_workflows.workflow_wrapper").MultiAgentWrapper
    assert marti_workflow.__file__ is not None
    agents = [agent("giver", 0), agent("taker", 1)]
    actor = wrapper.__ray_metadata__.modified_class(
        agents=agents, workflow_args={}, workflow_func_path=marti_workflow.__file__
    )
    await actor.add_requests(["hand it over"], [LABEL], max_length=4096)
    results = await actor.get_responses(1)
    generator = marti("marti.trainer.ppo_utils.multi_agent_samples_generator").MultiAgentSamplesGenerator
    samples = generator.prepare_samples(SimpleNamespace(), results)
    steps = results[0]["trajectory"]
    assert len(samples) == len(steps) == 4
    for sample, step in zip(samples, steps, strict=True):
        spoken, turn_id = actor_of(agents, step)
        prompt, ids = spoken.said[turn_id]
        assert sample.sequences.tolist() == [prompt + ids]
        assert sample.action_mask.tolist() == [[0] * (len(prompt) - 1) + [1] * len(ids)]
        assert sample.rollout_log_probs.tolist() == [[0.0] * (len(prompt) - 1) + [-0.25] * len(ids)]
        assert sample.rewards.tolist() == [1.0]
        assert sample.info["agent_id"].tolist() == [step["agent_index"]]


@pytest.mark.live
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_martis_wrapper_gets_no_samples_of_pictures_that_its_engines_cannot_be_shown(
    marti: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gallery.toml"
    path.write_text(
        f'environments = ["{GALLERY}"]\nset = {{ framed = true }}\n'
        f'[training]\ndirectory = "{tmp_path}/runs"\nreplays = 0\n'
    )
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(path))
    wrapper = marti("marti.agent_workflows.workflow_wrapper").MultiAgentWrapper
    playing = agent("agent")
    actor = wrapper.__ray_metadata__.modified_class(
        agents=[playing], workflow_args={}, workflow_func_path=marti_workflow.__file__
    )
    label = json.dumps({"environment": "gallery", "split": "test", "task_id": "56"})
    try:
        with pytest.raises(NotTrainable, match="model_failed"):
            await actor.add_requests(["how wide?"], [label], max_length=4096)
    finally:
        THREAD_WORKERS.close()
    assert playing["llm"].said == [], "no engine was asked about what it cannot see"


@pytest.mark.live
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_martis_generator_masks_what_the_environment_wrote(marti: Callable[[str], Any]) -> None:
    generator = marti("marti.trainer.ppo_utils.multi_agent_samples_generator").MultiAgentSamplesGenerator
    made = ours.result_of(forked(), "p", LABEL, [agent("agent")], per="agent")
    [sample] = generator.prepare_samples(SimpleNamespace(), [made])
    assert sample.sequences.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8]]
    assert sample.action_mask.tolist() == [[0, 0, 1, 1, 0, 1, 1]]
    assert sample.rollout_log_probs.tolist() == [[0.0, 0.0, -0.125, -0.25, 0.0, -0.125, -0.25]]
