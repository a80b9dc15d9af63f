"""An OpenRLHF agent executor (`--train.agent_func_path`) that plays the hub's rollouts."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference, TrainingRow, check_one_seat, training_rows
from rollouthub.rollout import Rollout
from rollouthub.trainers.engines.loop_engine import LoopEngine
from rollouthub.trainers.engines.vllm_calls import RequestOutput, SamplingParams, sampling_of
from rollouthub.trainers.pictures.shown_pictures import no_pictures
from rollouthub.trainers.stream import RolloutWorker
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from rollouthub.trainers.workers.retry_until_trainable import play_learnable
from rollouthub.trainers.workers.worker_settings import read_settings

_NAME = "openrlhf"


class LlmEngine(Protocol):
    """The method that the hub calls on OpenRLHF's engine."""

    async def generate(
        self, prompt_token_ids: list[int], sampling_params: Any, multi_modal_data: Any = None
    ) -> RequestOutput | None:
        """Sample an answer after a prompt of token ids."""
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
    """Play the task that the label names. Returns OpenRLHF's record of the rollout.

    Raises:
        ConfigError: a setting is invalid, the label names no task, or the row has images.
        NotTrainable: no sample of the task may be trained on; OpenRLHF cannot represent this.
    """
    if images:
        raise ConfigError("a row has images; this agent takes pictures from the environment's prompt, and carries none")
    settings = read_settings()
    loop = asyncio.get_running_loop()

    def worker() -> AbstractAsyncContextManager[RolloutWorker]:
        engine = LoopEngine(llm_engine.generate, sampling_params, loop)
        return settings.worker(_NAME, settings.token_model(f"{_NAME}/policy", engine, hf_tokenizer, max_length))

    thread_worker = await THREAD_WORKERS.opened(_NAME, worker)
    rollout = await play_learnable(thread_worker, TaskReference.parse(label), settings, sampling_of(sampling_params))
    with_logprobs = sampling_params.logprobs is not None
    return response_of(rollout, prompt, label, with_logprobs=with_logprobs, seat=settings.training.seat)


def response_of(
    rollout: Rollout, prompt: str, label: str, *, with_logprobs: bool = True, seat: str | None = None
) -> dict[str, Any]:
    """The record that OpenRLHF makes an experience of. It holds one training row: the one with the most sampled tokens.

    Raises:
        NotTrainable: the rollout must not be trained on, or several seats are trained and `seat` names none.
        ConfigError: the rollout shows pictures, whose pixels the record would lack.
    """
    no_pictures([rollout])
    rows = training_rows(rollout, seat=seat)
    if seat is None:
        check_one_seat(rollout, "an experience of OpenRLHF's")
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
    """The row with the most sampled tokens; among equal rows the last."""
    return max(rows, key=lambda row: (sum(row.segment.loss_mask), row.index))


def runs(mask: Sequence[int]) -> list[tuple[int, int]]:
    """The ranges where a mask is 1, as (begin, end) pairs."""
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
    """Create the `AgentExecutor` class that OpenRLHF looks for in an agent file, over OpenRLHF's base class."""
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
