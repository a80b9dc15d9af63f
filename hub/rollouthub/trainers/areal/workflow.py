"""`HubWorkflow`: AReaL's rollout workflow, whose episodes are the hub's, over AReaL's own inference engine."""

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from rollouthub.errors import ModelError
from rollouthub.export import Credit, NotTrainable, Refusal, RefusalReason, training_rows
from rollouthub.export.task_rows import find_task
from rollouthub.models.tokens import Sampled, TokenModel
from rollouthub.protocols import Sampling
from rollouthub.trainers.areal.tensors import trajectory
from rollouthub.trainers.stream.open_worker import RolloutWorker, SampleRequest, rollout_worker
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.workers.in_loop import KeptWorker
from rollouthub.trainers.workers.worker_settings import TrainingSettings, given_settings

logger = logging.getLogger(__name__)

_GROUPS = 4096


class ArealEngine:
    """A `TokenEngine` over AReaL's `InferenceEngine.agenerate`, with the version of every token."""

    def __init__(self, gconfig: Any, tokenizer: Any) -> None:
        self.engine: Any = None
        """Who samples; AReaL names it with every episode."""
        self._gconfig, self._tokenizer = gconfig, tokenizer

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample after a prompt; AReaL goes on by itself where a change of weights interrupts it.

        Raises:
            ModelError: the conversation shows pictures, which are not passed on.
        """
        if media:
            raise ModelError("pictures are not passed to AReaL's engine; play tasks of text", retryable=False)
        api: Any = system_module("areal.api")
        request = api.ModelRequest(
            rid=session, input_ids=list(prompt_ids), gconfig=self._config(sampling), tokenizer=self._tokenizer
        )
        answer = await self.engine.agenerate(request)
        return Sampled(
            token_ids=list(answer.output_tokens),
            logprobs=list(answer.output_logprobs),
            finish_reason="stop" if answer.stop_reason == "tool_calls" else answer.stop_reason,
            versions=list(answer.output_versions) or None,
        )

    def _config(self, sampling: Sampling) -> Any:
        changes: dict[str, Any] = {"n_samples": 1}
        for ours, theirs in (("temperature", "temperature"), ("top_p", "top_p"), ("stop", "stop"), ("seed", "seed")):
            value = getattr(sampling, ours)
            if value is not None and hasattr(self._gconfig, theirs):
                changes[theirs] = list(value) if ours == "stop" else value
        if sampling.max_tokens is not None:
            changes["max_new_tokens"] = min(sampling.max_tokens, self._gconfig.max_new_tokens)
        return self._gconfig.new(**changes)


class Workflow:
    """All of the workflow that needs nothing of AReaL's to be made."""

    def __init__(
        self,
        tokenizer: Any,
        settings: Mapping[str, Any] | str | Path | None = None,
        gconfig: Any = None,
        *,
        turn_discount: float = 1.0,
        forked: Literal["reject", "rows"] = "reject",
    ) -> None:
        """`tokenizer` is one, or its path; `settings` a run's, as a mapping or a TOML file (by default the one that
        `ROLLOUTHUB_TRAINING` names); `gconfig` AReaL's `GenerationHyperparameters`.

        A rollout whose history was rewritten makes several rows. AReaL's norms over groups count rows in blocks of
        the group's size, so such a rollout is rejected; `forked="rows"` hands out all of them, for norms over batches.

        Raises:
            ConfigError: a setting does not hold.
        """
        found = given_settings(settings)
        if isinstance(tokenizer, str):
            tokenizer = system_module("areal.utils.hf_utils").load_hf_tokenizer(tokenizer)
        if gconfig is None:
            gconfig = system_module("areal.api.cli_args").GenerationHyperparameters()
        if hasattr(tokenizer, "eos_token_id"):
            gconfig = gconfig.new_with_stop_and_pad_token_ids(tokenizer)
        self._engine = ArealEngine(gconfig, tokenizer)
        self._credit, self._forked = Credit(discount=turn_discount), forked
        self._samples: OrderedDict[str, int] = OrderedDict()
        longest = found.training.max_context or gconfig.max_tokens
        self._worker = KeptWorker(lambda: _worker(found, self._engine, tokenizer, longest))

    async def arun_episode(self, engine: Any, data: Mapping[str, Any]) -> dict[str, Any] | None:
        """Play the task that a row of data names; None where it must not be learnt from.

        Raises:
            ConfigError, UnknownNameError: the row names no task.
            SupplyError: the run has ended.
        """
        context: Any = system_module("areal.infra.workflow_context")
        self._engine.engine = engine
        task, now = find_task(data), context.get()
        group = uuid4().hex if now.task_id is None else f"{'eval' if now.is_eval else 'train'}-{now.task_id}"
        worker = await self._worker.get()
        rollout = await worker.play(
            SampleRequest(
                task.task_id, task.environment, task.split, group=group, sample=self._next_sample(f"{group}-{task}")
            )
        )
        scope = system_module("areal.utils.stats_tracker").get(context.stat_scope())
        try:
            rows = training_rows(rollout, self._credit)
            if len(rows) > 1 and self._forked == "reject":
                said = f"it makes {len(rows)} rows, and AReaL's groups count on one"
                raise NotTrainable(RefusalReason(Refusal.FORKED, said, rollout.rollout_id))
        except NotTrainable as error:
            logger.info("rejected: %s", error)
            scope.scalar(rollouthub_rejected=1.0)
            return None
        scope.scalar(reward=rollout.reward, num_turns=len(rollout.turns), rollouthub_rejected=0.0)
        return trajectory(rows)

    async def close(self) -> None:
        """End the run before the event loop does."""
        await self._worker.close()

    def _next_sample(self, group: str) -> int:
        """Which of its group the next episode is: AReaL asks for members one by one, all with the same data."""
        sample = self._samples.get(group, 0)
        self._samples[group] = sample + 1
        if len(self._samples) > _GROUPS:
            self._samples.popitem(last=False)
        return sample


@asynccontextmanager
async def _worker(
    settings: TrainingSettings, engine: ArealEngine, tokenizer: Any, max_context: int | None
) -> AsyncGenerator[RolloutWorker]:
    model = TokenModel("hosted_vllm/areal", engine, settings.chat_format(tokenizer), max_context=max_context)
    async with rollout_worker(
        settings.request, directory=settings.run_directory("areal"), model=model, suspect=settings.training.suspect
    ) as worker:
        yield worker


def workflow_class() -> Any:
    """`HubWorkflow`, as a `RolloutWorkflow` of the AReaL that is installed."""
    api: Any = system_module("areal.api.workflow_api")
    made = type("HubWorkflow", (Workflow, api.RolloutWorkflow), {"__doc__": Workflow.__doc__})
    made.__module__ = "rollouthub.trainers.areal"
    return made
