"""AReaL: trajectories from records and from episodes over its engine. Its proxy is in `test_areal_proxy.py`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Public
from rollouthub.export import Credit, TaskReference, training_rows
from rollouthub.trainers import areal as ours
from tests.export.made import forked, rollout, turn
from tests.models.tokens.chatml import ChatMl
from tests.trainers.speaker import Speaker
from tests.trainers.upstream import playing, sum_task


def test_a_row_has_every_token_with_its_mask_logprob_version_and_turn() -> None:
    made = rollout(
        turn(0, [1, 2, 3], [4, 5], policy_versions=[3, 4]),
        turn(1, [1, 2, 3, 4, 5, 6], [7], policy_version=4),
        reward=0.5,
    )
    [row] = training_rows(made)
    assert ours.row_columns(row) == {
        "input_ids": [1, 2, 3, 4, 5, 6, 7],
        "loss_mask": [0, 0, 0, 1, 1, 0, 1],
        "logprobs": [0.0, 0.0, 0.0, -0.125, -0.25, 0.0, -0.125],
        "versions": [-1, -1, -1, 3, 4, -1, 4],
        "turn_ids": [-1, -1, -1, 0, 0, -1, 1],
        "attention_mask": [True] * 7,
        "rewards": 0.5,
    }


def test_turns_are_numbered_within_their_row_and_a_discount_takes_its_share() -> None:
    first, second = training_rows(forked(reward=1.0), Credit(discount=0.5))
    assert ours.row_columns(first)["rewards"] == 0.25
    assert ours.row_columns(second)["rewards"] == 1.0
    assert ours.row_columns(second)["turn_ids"] == [-1, -1, -1, 0]


def test_rows_of_a_data_set_name_their_tasks() -> None:
    [row] = ours.task_rows([Public(id="1", prompt="What is 1 + 1?")], "arithmetic", "train")
    assert row == {
        "messages": [{"role": "user", "content": "What is 1 + 1?"}],
        "rollouthub": str(TaskReference("arithmetic", "train", "1")),
    }


# --- the real classes -------------------------------------------------------------------------------------------


class Tokenizer(ChatMl):
    """What AReaL asks of a tokenizer of transformers, besides."""

    def __init__(self) -> None:
        super().__init__()
        self.eos_token_id = self.pad_token_id = self.end

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> Any:
        is_wanted = options.pop("tokenize")
        messages = [{**message, "content": message.get("content") or ""} for message in conversation]
        text = super().apply_chat_template(messages, tokenize=False, **options)
        return {"input_ids": self.real.encode(text, add_special_tokens=False).ids} if is_wanted else text

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = False) -> str:
        return super().decode(token_ids, skip_special_tokens=skip_special_tokens)


class Engine:
    """AReaL's engine, of which workflows see one method; the weights change in the middle of each answer."""

    def __init__(self, system: Callable[[str], Any]) -> None:
        self.speaker, self._api = Speaker(), system("areal.api")
        self.asked: list[Any] = []

    async def agenerate(self, request: Any) -> Any:
        self.asked.append(request)
        said = self.speaker.speak(request.input_ids)
        middle = len(said.token_ids) // 2
        return self._api.ModelResponse(
            input_tokens=list(request.input_ids),
            output_tokens=said.token_ids,
            output_logprobs=said.logprobs,
            output_versions=[5] * middle + [6] * (len(said.token_ids) - middle),
            stop_reason="stop",
            tokenizer=request.tokenizer,
        )


def check_rows(speaker: Speaker, columns: Mapping[str, Any]) -> None:
    """Each trajectory of a batch has the ids, masks and log-probabilities of what the policy said, and versions."""
    known = speaker.rows()
    for place, attention in enumerate(columns["attention_mask"].tolist()):
        length = sum(attention)
        ids = columns["input_ids"][place][:length].tolist()
        mask, logprobs = known[tuple(ids)]
        assert columns["loss_mask"][place][:length].tolist() == mask
        assert columns["logprobs"][place][:length].tolist() == logprobs
        versions = columns["versions"][place][:length].tolist()
        assert [version > 0 for version in versions] == [bool(each) for each in mask]
        assert set(versions) == {-1, 5, 6}


@pytest.mark.live
async def test_areals_executor_takes_what_its_engine_said(system: Callable[[str], Any], tmp_path: Path) -> None:
    executor, remote = system("areal.infra.workflow_executor"), system("areal.infra.remote_inf_engine")
    api, imports = system("areal.api"), system("areal.utils.dynamic_import")
    made = imports.import_from_string("rollouthub.trainers.areal.HubWorkflow")
    assert issubclass(made, api.RolloutWorkflow)
    workflow, engine = made(Tokenizer(), playing(tmp_path)), Engine(system)
    context = system("areal.infra.workflow_context")
    context.set(context.WorkflowContext(task_id=3))
    logger = system("areal.utils.logging").getLogger("test")
    grouped = remote.GroupedRolloutWorkflow(workflow, 4, logger)
    try:
        group = await grouped.arun_episode(engine, {"rollouthub": sum_task(0)})
        alone = await workflow.arun_episode(engine, {"rollouthub": sum_task(1)})
    finally:
        await workflow.close()
    assert executor.check_trajectory_format(alone, batch_size=1)
    assert executor.check_trajectory_format(group, batch_size=4, expected_keys=set(alone))
    check_rows(engine.speaker, group)
    check_rows(engine.speaker, alone)
    assert sorted(group["rewards"].tolist()) == [0.0, 0.0, 1.0, 1.0]
    kinds = {name: str(each.dtype).removeprefix("torch.") for name, each in alone.items()}
    assert kinds == dict.fromkeys(("input_ids", "loss_mask", "versions", "turn_ids"), "int32") | dict.fromkeys(
        ("logprobs", "rewards"), "float32"
    ) | {"attention_mask": "bool"}
    assert len({request.rid for request in engine.asked}) == 5
    assert all(request.gconfig.n_samples == 1 for request in engine.asked)


@pytest.mark.live
async def test_areal_rejects_an_episode_that_broke(system: Callable[[str], Any], tmp_path: Path) -> None:
    system("areal.api")

    class Gone:
        async def agenerate(self, request: Any) -> Any:
            raise RuntimeError("the engine is gone")

    workflow = ours.HubWorkflow(Tokenizer(), playing(tmp_path, retries={"infrastructure": 0}))
    try:
        assert await workflow.arun_episode(Gone(), {"rollouthub": sum_task(0)}) is None
    finally:
        await workflow.close()


@pytest.mark.live
def test_rows_of_a_forked_rollout_are_padded_as_areal_does_it(system: Callable[[str], Any]) -> None:
    data = system("areal.utils.data")
    joined = ours.trajectory(training_rows(forked()))
    assert joined["input_ids"].tolist() == [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 9, 7, 0, 0, 0, 0]]
    assert joined["attention_mask"].sum(dim=1).tolist() == [8, 4]
    back = data.split_and_unpad_tensor(joined, 2)
    assert [each["input_ids"].tolist() for each in back] == [[[1, 2, 3, 4, 5, 6, 7, 8]], [[1, 2, 9, 7]]]
