"""OpenRLHF's agent executor (`--train.agent_func_path`) over rollouts of the hub's."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference, TrainingRow, training_rows
from rollouthub.models.tokens import TokenModel
from rollouthub.rollout import Rollout
from rollouthub.trainers.engines.loop_engine import LoopEngine
from rollouthub.trainers.engines.vllm_calls import RequestOutput, SamplingParams, sampling_of
from rollouthub.trainers.stream import RolloutWorker, rollout_worker
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.workers.in_thread import RESIDENTS
from rollouthub.trainers.workers.retry_until_trainable import play_learnable
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings

_NAME = "openrlhf"


class LlmEngine(Protocol):
    """What is asked of the engine OpenRLHF hands out."""

    async def generate(
        self, prompt_token_ids: list[int], sampling_params: Any, multi_modal_data: Any = None
    ) -> RequestOutput | None:
        """Sample after a prompt of ids."""
        ...


async def execute(
    prompt: str,
    label: str,
    sampling_params: SamplingParams,
    max_length: int,
    hf_tokenizer: Any,
    llm_engine: LlmEngine,
    images: Any = None,
) -> dict[str, Any]:
    """Play the task that the label names; OpenRLHF's record of it.

    Raises:
        ConfigError: the settings do not hold, the label names no task, or the row has images.
        NotTrainable: no sample of it may be learnt from, and OpenRLHF has no word for that.
    """
    if images:
        raise ConfigError("a row has images; this agent takes pictures from the environment's prompt, and carries none")
    settings = read_settings()
    loop = asyncio.get_running_loop()

    def worker() -> AbstractAsyncContextManager[RolloutWorker]:
        engine = LoopEngine(llm_engine.generate, sampling_params, loop)
        return _worker(settings, engine, hf_tokenizer, max_length)

    resident = await RESIDENTS.opened(_NAME, worker)
    rollout = await play_learnable(resident, TaskReference.parse(label), settings, sampling_of(sampling_params))
    return response_of(rollout, prompt, label, with_logprobs=sampling_params.logprobs is not None)


def _worker(
    settings: TrainingSettings, engine: LoopEngine, tokenizer: Any, max_length: int
) -> AbstractAsyncContextManager[RolloutWorker]:
    model = TokenModel(
        f"{_NAME}/policy",
        engine,
        settings.chat_format(tokenizer),
        max_context=settings.training.max_context or max_length,
    )
    return rollout_worker(
        settings.request, directory=settings.run_directory(_NAME), model=model, suspect=settings.training.suspect
    )


def response_of(rollout: Rollout, prompt: str, label: str, *, with_logprobs: bool = True) -> dict[str, Any]:
    """The record that OpenRLHF makes an experience of: one row, the chain with most sampled tokens.

    Raises:
        NotTrainable: it is not to be learnt from.
    """
    rows = training_rows(rollout)
    row = longest(rows)
    mask = list(row.segment.loss_mask)
    left_out = sum(sum(each.segment.loss_mask) for each in rows if each is not row)
    # Numbers alone, and the same names for every rollout: they are stacked over a batch.
    logs = {"turns": len(row.turns), "rows": row.count, "left_out_tokens": left_out}
    return {
        "prompt": prompt,
        "label": label,
        "images": None,
        "mm_train_inputs": None,
        "observation_tokens": list(row.segment.token_ids),
        "action_ranges": runs(mask),
        "rollout_log_probs": list(row.segment.logprobs) if with_logprobs else None,
        "reward": row.reward,
        "scores": row.reward,
        "truncated": row.is_truncated,
        "extra_logs": {name: float(value) for name, value in logs.items()},
    }


def longest(rows: Sequence[TrainingRow]) -> TrainingRow:
    """The row with most sampled tokens, of equal ones the latest."""
    return max(rows, key=lambda row: (sum(row.segment.loss_mask), row.index))


def runs(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Where a mask is 1: beginnings and ends."""
    found: list[tuple[int, int]] = []
    begin: int | None = None
    for place, value in enumerate([*mask, 0]):
        if value and begin is None:
            begin = place
        elif not value and begin is not None:
            found.append((begin, place))
            begin = None
    return found


def agent_executor() -> Any:
    """The class OpenRLHF looks for in an agent's file, over its own base class."""
    base: Any = system_module("openrlhf.utils.agent").AgentExecutorBase

    class AgentExecutor(base):
        """Plays the hub's environments."""

        async def execute(
            self,
            prompt: str,
            label: str,
            sampling_params: Any,
            max_length: int,
            hf_tokenizer: Any,
            llm_engine: Any,
            images: Any = None,
            **kwargs: Any,
        ) -> dict[str, Any]:
            """See `rollouthub.trainers.openrlhf.execute`."""
            return await execute(prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images)

    return AgentExecutor
