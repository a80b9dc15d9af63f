"""OpenRLHF: its agent's record, its own conversion of it, and its reward route."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module, util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rollouthub import Public, Score
from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable, TaskReference
from rollouthub.export.task_column import find_task, prompt_rows
from rollouthub.generation import Sampling
from rollouthub.score import Component
from rollouthub.trainers import openrlhf as ours
from rollouthub.trainers import openrlhf_agent, openrlhf_reward
from rollouthub.trainers.blocking_scorer import scorer_for
from rollouthub.trainers.engines.vllm_calls import params_of
from rollouthub.trainers.scorer import Verdict
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from tests.export.made import forked, rollout
from tests.models.tokens.chatml import ChatMl
from tests.trainers.absent import Absent
from tests.trainers.speaker import Speaker

LABEL = str(TaskReference("arithmetic", "train", "train/0"))


@dataclass
class Params:
    """vLLM's sampling parameters, as far as they are read."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_tokens: int = 1
    max_tokens: int | None = 256
    logprobs: int | None = 1
    seed: int | None = None


class Engine:
    """Answers as OpenRLHF's engine does: vLLM's request outputs."""

    def __init__(self, speaker: Speaker, *, drops: int | None = None) -> None:
        self.speaker, self.drops = speaker, drops
        self.asked: list[Params] = []

    async def generate(self, prompt_token_ids: list[int], sampling_params: Params, multi_modal_data: Any = None) -> Any:
        self.asked.append(sampling_params)
        said = self.speaker.speak(prompt_token_ids)
        logprobs = [
            {token: SimpleNamespace(logprob=logprob)}
            for token, logprob in zip(said.token_ids, said.logprobs, strict=True)
        ]
        if len(self.asked) - 1 == self.drops:
            logprobs = None
        output = SimpleNamespace(token_ids=said.token_ids, logprobs=logprobs, finish_reason="stop", text="")
        return SimpleNamespace(outputs=[output])


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Settings for whoever executes."""
    settings = tmp_path / "openrlhf.toml"
    settings.write_text(
        'environments = ["arithmetic"]\nset = { terms = 2, digits = 2 }\nrepeats = 2\n'
        f'[training]\ndirectory = "{tmp_path}/runs"\nreplays = 1\n'
    )
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(settings))
    yield
    THREAD_WORKERS.close()


def test_an_engine_is_asked_as_the_run_and_the_trainer_say_and_always_for_logprobs() -> None:
    template = Params(logprobs=None)
    asked: Any = params_of(template, Sampling(temperature=0.5, stop=("END",), extra={"top_k": 5, "unknown": 1}))
    assert (asked.temperature, asked.stop, asked.top_k, asked.logprobs) == (0.5, ["END"], 5, 1)
    assert (asked.top_p, asked.max_tokens) == (1.0, 256)
    assert template == Params(logprobs=None), "it is the trainer's own"


def test_the_record_has_the_ids_ranges_logprobs_and_reward_of_its_rollout() -> None:
    response = ours.response_of(rollout(reward=0.75), "p", LABEL)
    assert response["observation_tokens"] == [1, 2, 3, 4, 5, 6, 7]
    assert response["action_ranges"] == [(3, 5), (6, 7)]
    assert response["rollout_log_probs"] == [0.0, 0.0, 0.0, -0.125, -0.25, 0.0, -0.125]
    assert (response["reward"], response["scores"], response["truncated"]) == (0.75, 0.75, False)


def test_of_a_forked_rollout_the_chain_with_most_sampled_tokens_is_taken_and_the_rest_is_counted() -> None:
    response = ours.response_of(forked(), "p", LABEL)
    assert response["observation_tokens"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert response["extra_logs"] == {"turns": 2.0, "rows": 2.0, "left_out_tokens": 1.0}


def test_what_was_not_scored_makes_no_record() -> None:
    with pytest.raises(NotTrainable, match="unscored"):
        ours.response_of(rollout(reward=None), "p", LABEL)


def test_a_row_names_its_task_twice_and_says_nothing_of_the_answer() -> None:
    [row] = prompt_rows([Public(id="train/0", system="Be brief.", prompt="What is 1 + 1?")], "arithmetic", "train")
    assert row == {
        "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 1 + 1?"}],
        "label": LABEL,
        "metadata": {"environment": "arithmetic", "split": "train", "task_id": "train/0"},
    }
    assert find_task(row["metadata"], None) == find_task(None, row["label"]) == TaskReference.parse(LABEL)
    with pytest.raises(ConfigError, match="names no task"):
        find_task({}, None)


def test_an_answer_is_what_follows_the_prompt_without_marks() -> None:
    assert ours.answer_of("<s>What?<a>It is 4.<|im_end|>\n", "What?<a>") == "It is 4."
    with pytest.raises(ConfigError, match="lacks its prompt"):
        ours.answer_of("t?<a>It is 4.", "What?<a>")


def test_the_reply_has_rewards_scores_and_the_components_that_all_have() -> None:
    both = {"format": Component(value=0.5), "style": Component(value=1.0, weight=0.5)}
    verdicts = [
        Verdict(Score(reward=1.0, components=both)),
        Verdict(Score(reward=0.5, components={"format": both["format"]})),
    ]
    assert ours.reward_reply(verdicts) == {
        "rewards": [1.0, 0.5],
        "scores": [1.0, 0.5],
        "extra_logs": {"format": [0.5, 0.5]},
    }


def test_an_answer_without_a_verdict_is_no_zero() -> None:
    with pytest.raises(NotTrainable, match="too slow"):
        ours.reward_reply([Verdict(Score(reward=1.0)), Verdict(None, "the verifier was too slow")])


DOUBTFUL = """
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

class Doubtful(Environment[EnvironmentConfig]):
    default_agent = "single_turn"

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="What is 1 + 1?"), Secret())

    async def verify(self, submission):
        return Score(reward=0.75, suspect="the runner was replaced")
"""


@pytest.mark.parametrize("suspect", [False, True])
async def test_a_suspect_score_is_trained_on_only_where_the_settings_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suspect: bool
) -> None:
    (tmp_path / "doubtful.py").write_text(DOUBTFUL)
    (tmp_path / "play.toml").write_text(
        f'environments = ["{tmp_path}/doubtful.py"]\n'
        f'[training]\ndirectory = "{tmp_path}/runs"\nreplays = 0\nsuspect = {str(suspect).lower()}\n'
    )
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(tmp_path / "play.toml"))
    label = str(TaskReference("doubtful", "test", "one"))
    try:
        asked = ours.execute("p", label, Params(), 4096, ChatMl(), Engine(Speaker()))
        if suspect:
            assert (await asked)["reward"] == 0.75
        else:
            with pytest.raises(NotTrainable, match="its score is suspect: the runner was replaced"):
                await asked
    finally:
        THREAD_WORKERS.close()


async def test_each_call_is_a_sample_of_its_tasks_group_played_on_the_trainers_engine(played: None) -> None:
    speaker = Speaker()
    engine = Engine(speaker)
    responses = [await ours.execute("p", LABEL, Params(logprobs=None), 4096, ChatMl(), engine) for _ in range(2)]
    assert [response["reward"] for response in responses] == [0.0, 1.0]
    assert all(asked.logprobs == 1 for asked in engine.asked)
    assert all(response["rollout_log_probs"] is None for response in responses)
    rows = speaker.rows()
    for response in responses:
        mask, _ = rows[tuple(response["observation_tokens"])]
        assert response["action_ranges"] == ours.runs(mask)


@pytest.mark.live
async def test_what_must_not_be_learnt_from_is_played_again(played: None) -> None:
    engine = Engine(Speaker(), drops=1)
    response = await ours.execute("p", LABEL, Params(), 4096, ChatMl(), engine)
    assert len(engine.asked) == 4
    assert None not in response["rollout_log_probs"]


# --- with OpenRLHF's own classes --------------------------------------------------------------------------------------


@pytest.fixture
def openrlhf(system: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Its modules; vLLM, of which nothing is called here, need not be installed."""
    system("openrlhf.utils.agent")
    if util.find_spec("vllm") is None:
        for name in ("vllm", "vllm.inputs", "vllm.utils"):
            monkeypatch.setitem(sys.modules, name, Absent(name))
    return import_module


def converted(openrlhf: Callable[[str], Any], response: dict[str, Any], **settings: Any) -> Any:
    """What OpenRLHF's generator makes of a record."""
    generator = openrlhf("openrlhf.trainer.ppo_utils.samples_generator").SamplesGenerator
    return generator._process_response_into_experience(SimpleNamespace(), response, **settings)


@pytest.mark.live
def test_the_agents_file_defines_what_openrlhf_looks_for(openrlhf: Callable[[str], Any]) -> None:
    load = openrlhf("openrlhf.trainer.ray.vllm_engine")._load_agent_executor
    assert openrlhf_agent.__file__ is not None
    executor = load(openrlhf_agent.__file__)
    assert isinstance(executor, openrlhf("openrlhf.utils.agent").AgentExecutorBase)


@pytest.mark.live
async def test_openrlhfs_experience_has_the_masks_and_logprobs_one_place_on(
    openrlhf: Callable[[str], Any], played: None
) -> None:
    speaker = Speaker()
    assert openrlhf_agent.__file__ is not None
    executor = openrlhf_agent.AgentExecutor()
    response = await executor.execute(
        prompt="p",
        label=LABEL,
        sampling_params=Params(),
        max_length=4096,
        hf_tokenizer=ChatMl(),
        llm_engine=Engine(speaker),
        images=None,
    )
    made = converted(openrlhf, response, max_len=4096)
    [(ids, (mask, logprobs))] = speaker.rows().items()
    assert made.sequences.tolist() == [list(ids)]
    assert made.action_mask.tolist() == [mask[1:]]
    assert made.rollout_log_probs.tolist() == [logprobs[1:]]
    assert made.rewards.tolist() == made.scores.tolist() == [response["reward"]]
    assert made.truncated.tolist() == [False]
    assert made.labels == [LABEL]


@pytest.mark.live
def test_openrlhf_stacks_forked_and_other_records_in_one_batch(openrlhf: Callable[[str], Any]) -> None:
    experience = openrlhf("openrlhf.trainer.ppo_utils.experience").Experience
    pair = [converted(openrlhf, ours.response_of(each, "p", LABEL)) for each in (forked(), rollout(reward=0.0))]
    batch = experience.concat_experiences(pair, 0)
    assert batch.rewards.tolist() == [1.0, 0.0]
    assert batch.action_mask.sum(-1).tolist() == [4, 3]
    assert batch.info["rows"].tolist() == [2.0, 1.0]


@pytest.mark.live
async def test_openrlhfs_executor_scores_answers_through_the_reward_file(
    openrlhf: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLOUTHUB_SCORER", "arithmetic")
    assert openrlhf_reward.__file__ is not None
    executor = openrlhf("openrlhf.utils.agent").SingleTurnAgentExecutor(openrlhf_reward.__file__)
    [task] = [each for each in scorer_for().tasks(split="train") if each.id == "train/0"]
    value = eval(str(task.prompt).partition("What is ")[2].partition("?")[0])  # a sum
    queries = [f"Q: It is {said}.<|im_end|>" for said in (value, value + 1)]
    replies = await executor._fetch_rewards_via_func(queries, ["Q: ", "Q: "], [LABEL, LABEL])
    assert [reply["rewards"].tolist() for reply in replies] == [[1.0], [0.0]]
    record = ours.response_of(rollout(), "p", LABEL)
    record.update(reward=replies[0]["rewards"], scores=replies[0]["scores"])
    assert converted(openrlhf, record).rewards.tolist() == [1.0]
