"""`HubGenerator`: a SkyRL generator whose trajectories are episodes of the hub."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from rollouthub.errors import ConfigError
from rollouthub.export.task_rows import COLUMN, find_task
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures
from rollouthub.trainers.pictures.shown_pictures import shows_media
from rollouthub.trainers.skyrl.output import Shape, generator_output
from rollouthub.trainers.skyrl.skyrl_engine import SkyrlEngine, sampling_of
from rollouthub.trainers.skyrl.vision_columns import vision_columns
from rollouthub.trainers.stream.open_worker import SampleRequest
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.workers.in_loop import KeptWorker
from rollouthub.trainers.workers.worker_settings import given_settings


class Generation:
    """The part of `HubGenerator` that does not depend on SkyRL's classes."""

    def __init__(
        self,
        inference_engine_client: Any,
        tokenizer: Any,
        settings: Mapping[str, Any] | str | Path | None = None,
        *,
        model: str | None = None,
        shape: Shape | None = None,
        may_be_empty: bool = False,
        processor: Any = None,
    ) -> None:
        """`settings` are a run's settings: a mapping, or a TOML file's path. Default: the file that
        `ROLLOUTHUB_TRAINING` names.

        `model` is the adapter that the client is to use, if any; `processor` is the processor of a vision-language
        policy. `may_be_empty` allows batches in which every row is masked, which fully asynchronous training needs,
        because it requests one group at a time.

        Raises:
            ConfigError: a setting is invalid.
        """
        found = given_settings(settings)
        self._pictures = None if processor is None else PromptPictures(processor)
        self._engine = SkyrlEngine(inference_engine_client, model, self._pictures)
        shape = shape or Shape()
        self._shape = replace(shape, seat=shape.seat or found.training.seat, takes_seats=not may_be_empty)
        self._may_be_empty = may_be_empty
        named = model or getattr(inference_engine_client, "model_name", None) or "policy"
        policy = found.token_model(f"hosted_vllm/{named}", self._engine, tokenizer, pictures=self._pictures)
        self._worker = KeptWorker(lambda: found.worker("skyrl", policy, no_groups=None))

    async def generate(self, input_batch: Mapping[str, Any], disable_tqdm: bool = False) -> dict[str, Any]:
        """Play a batch. Returns its trajectories in the order of the prompts.

        Raises:
            ConfigError, UnknownNameError: a row names no known task.
            SupplyError: no rollout of the batch may be trained on, or the run has ended.
        """
        count, trajectories = len(input_batch["prompts"]), input_batch.get("trajectory_ids")
        ids: Sequence[Any] = [None] * count if trajectories is None else trajectories
        asked = wanted(input_batch.get("env_extras"), ids, input_batch.get("sampling_params"))
        worker = await self._worker.get()
        metadata = input_batch.get("batch_metadata")
        if metadata is not None and metadata.global_step > worker.policy_version:
            worker.policy_version = metadata.global_step
        rollouts = await worker.play_all(asked)
        for rollout in rollouts:
            await self._engine.finish(rollout.rollout_id)
        may_be_empty = self._may_be_empty or (metadata is not None and metadata.training_phase == "eval")
        played = list(zip(ids, rollouts, strict=True))
        output = generator_output(played, self._shape, may_be_empty=may_be_empty)
        if any(map(shows_media, rollouts)):
            output |= await vision_columns(rollouts, self._shape, worker.directory, self._pictures)
        return output

    async def close(self) -> None:
        """Close the worker and its run. Call it before the event loop ends."""
        await self._worker.close()


def wanted(
    env_extras: Sequence[Mapping[str, Any]] | None,
    trajectories: Sequence[Any],
    sampling_params: Mapping[str, Any] | None,
) -> list[SampleRequest]:
    """The sample requests of a batch. Rows of one instance form a group; groups are never shared between batches.

    Raises:
        ConfigError: a row names no task.
    """
    if env_extras is None:
        raise ConfigError(f"the batch has no env_extras; the column {COLUMN!r} of the data set names its tasks")
    sampling, batch = sampling_of(sampling_params), uuid4().hex
    seen, found = Counter[str](), list[SampleRequest]()
    for extras, trajectory in zip(env_extras, trajectories, strict=True):
        task = find_task(extras)
        group = f"{batch}-{task if trajectory is None else trajectory.instance_id}"
        found.append(
            SampleRequest(
                task.task_id, task.environment, task.split, group=group, sample=seen[group], sampling=sampling
            )
        )
        seen[group] += 1
    return found


def generator_class() -> Any:
    """Create `HubGenerator` as a subclass of the installed SkyRL's `GeneratorInterface`."""
    base: Any = system_module("skyrl.train.generators.base")
    made = type("HubGenerator", (Generation, base.GeneratorInterface), {"__doc__": Generation.__doc__})
    made.__module__ = "rollouthub.trainers.skyrl"
    return made
