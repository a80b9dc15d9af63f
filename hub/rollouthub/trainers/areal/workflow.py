"""`HubWorkflow`: an AReaL rollout workflow that plays the hub's episodes over AReaL's own inference engine."""

import logging
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from anyio import to_thread

from rollouthub.errors import ConfigError, ModelError
from rollouthub.export import Credit, NotTrainable, Refusal, RefusalReason, check_one_seat, training_rows
from rollouthub.export.task_rows import find_task
from rollouthub.generation import Sampling
from rollouthub.models.tokens import Sampled
from rollouthub.trainers.areal.tensors import Seen, trajectory
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures
from rollouthub.trainers.pictures.shown_pictures import row_tensors
from rollouthub.trainers.stream.open_worker import SampleRequest
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.workers.in_loop import KeptWorker
from rollouthub.trainers.workers.worker_settings import given_settings

logger = logging.getLogger(__name__)

_GROUPS = 4096


class ArealEngine:
    """A `TokenEngine` over AReaL's `InferenceEngine.agenerate`, which reports the policy version of every token."""

    def __init__(self, gconfig: Any, tokenizer: Any, processor: Any = None) -> None:
        """`processor` is the Hugging Face processor of a vision-language policy; None for a text-only policy."""
        self.engine: Any = None
        """AReaL's inference engine. AReaL passes it with every episode."""
        self._gconfig, self._tokenizer, self._processor = gconfig, tokenizer, processor

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer after a prompt of token ids. If a weight update interrupts generation, AReaL itself
        continues it.

        Raises:
            ModelError: the conversation shows pictures, and the policy is text-only or served by vLLM.
        """
        if media and self._processor is None:
            raise ModelError(
                "the conversation shows pictures; give HubWorkflow the policy's processor", retryable=False
            )
        if media and "vllm" in type(self.engine).__name__.lower():
            raise ModelError(
                "AReaL's client of vLLM sends token ids without their pictures; serve the policy by SGLang",
                retryable=False,
            )
        api: Any = system_module("areal.api")
        request = api.ModelRequest(
            rid=session,
            input_ids=list(prompt_ids),
            gconfig=self._config(sampling),
            tokenizer=self._tokenizer,
            image_data=[b64encode(raw).decode() for raw in media.values()],
            processor=self._processor,
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
    """The part of `HubWorkflow` that does not depend on AReaL's classes."""

    def __init__(
        self,
        tokenizer: Any,
        settings: Mapping[str, Any] | str | Path | None = None,
        gconfig: Any = None,
        *,
        turn_discount: float = 1.0,
        forked: Literal["reject", "rows"] = "reject",
        processor: Any = None,
    ) -> None:
        """Prepare the worker, which opens at the first episode.

        `tokenizer` is a tokenizer or its path; `processor` is the processor of a vision-language policy, or its path.
        `settings` are a run's settings: a mapping, or a TOML file's path (default: the file that `ROLLOUTHUB_TRAINING`
        names). `gconfig` is AReaL's `GenerationHyperparameters`.

        A rollout whose history was rewritten makes several rows. AReaL's group normalisation takes rows in blocks of
        the group's size, so such a rollout is rejected by default; `forked="rows"` returns all its rows, for
        normalisation over whole batches.

        If the environment scores groups, `gconfig.n_samples` is the size of one; AReaL requests its members at once.

        Raises:
            ConfigError: a setting is invalid.
        """
        found = given_settings(settings)
        if isinstance(tokenizer, str):
            tokenizer = system_module("areal.utils.hf_utils").load_hf_tokenizer(tokenizer)
        if gconfig is None:
            gconfig = system_module("areal.api.cli_args").GenerationHyperparameters()
        if hasattr(tokenizer, "eos_token_id"):
            gconfig = gconfig.new_with_stop_and_pad_token_ids(tokenizer)
        if isinstance(processor, str):
            processor = system_module("transformers").AutoProcessor.from_pretrained(processor)
        self._pictures = None if processor is None else PromptPictures(processor)
        self._engine = ArealEngine(gconfig, tokenizer, processor)
        self._credit, self._forked, self._seat = Credit(discount=turn_discount), forked, found.training.seat
        self._samples: OrderedDict[str, int] = OrderedDict()
        model = found.token_model("hosted_vllm/areal", self._engine, tokenizer, gconfig.max_tokens, self._pictures)
        self._worker = KeptWorker(lambda: found.worker("areal", model, no_groups=None))
        self._group_size = int(gconfig.n_samples)

    async def arun_episode(self, engine: Any, data: Mapping[str, Any]) -> dict[str, Any] | None:
        """Play the task that the data row names. Returns None, a rejection, if the rollout must not be trained on.

        Raises:
            ConfigError, UnknownNameError: the row names no task.
            SupplyError: the run has ended.
        """
        context: Any = system_module("areal.infra.workflow_context")
        self._engine.engine = engine
        task, now = find_task(data), context.get()
        group = uuid4().hex if now.task_id is None else f"{'eval' if now.is_eval else 'train'}-{now.task_id}"
        worker = await self._worker.get()
        sample, size = self._next_sample(f"{group}-{task}"), None
        if worker.scores_groups(task.environment):
            size = self._group_size
            if sample >= size:
                raise ConfigError(
                    f"AReaL asks for more than the {size} members of a group that gconfig.n_samples names, and "
                    f"environment {task.environment!r} scores whole groups; give HubWorkflow this rollout's gconfig"
                )
        rollout = await worker.play(
            SampleRequest(task.task_id, task.environment, task.split, group=group, sample=sample, group_size=size)
        )
        scope = system_module("areal.utils.stats_tracker").get(context.stat_scope())
        try:
            rows = training_rows(rollout, self._credit, seat=self._seat)
            if self._seat is None:
                check_one_seat(rollout, "a trajectory of AReaL's")
            if len(rows) > 1 and self._forked == "reject":
                said = f"it makes {len(rows)} rows, and AReaL's groups count on one"
                raise NotTrainable(RefusalReason(Refusal.FORKED, said, rollout.rollout_id))
        except NotTrainable as error:
            logger.info("rejected: %s", error)
            scope.scalar(rollouthub_rejected=1.0)
            return None
        scope.scalar(reward=rows[0].reward, num_turns=len(rollout.turns), rollouthub_rejected=0.0)
        shown = [await to_thread.run_sync(row_tensors, row, worker.directory, self._pictures) for row in rows]
        return trajectory(rows, None if self._pictures is None else Seen(self._pictures.mark, shown))

    async def close(self) -> None:
        """Close the worker and its run. Call it before the event loop ends."""
        await self._worker.close()

    def _next_sample(self, group: str) -> int:
        """The sample number for the group's next episode: AReaL requests members one by one, with identical data."""
        sample = self._samples.get(group, 0)
        self._samples[group] = sample + 1
        if len(self._samples) > _GROUPS:
            self._samples.popitem(last=False)
        return sample


def workflow_class() -> Any:
    """Create `HubWorkflow` as a subclass of the installed AReaL's `RolloutWorkflow`."""
    api: Any = system_module("areal.api.workflow_api")
    made = type("HubWorkflow", (Workflow, api.RolloutWorkflow), {"__doc__": Workflow.__doc__})
    made.__module__ = "rollouthub.trainers.areal"
    return made
