"""`HubGenerator`: SkyRL's generator, whose trajectories are episodes of the hub."""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from rollouthub.errors import ConfigError
from rollouthub.export.task_rows import COLUMN, find_task
from rollouthub.models.tokens import TokenModel
from rollouthub.trainers.skyrl.output import Shape, generator_output
from rollouthub.trainers.skyrl.skyrl_engine import SkyrlEngine, sampling_of
from rollouthub.trainers.stream.open_worker import RolloutWorker, SampleRequest, rollout_worker
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.workers.in_loop import KeptWorker
from rollouthub.trainers.workers.worker_settings import TrainingSettings, given_settings


class Generation:
    """All of the generator that needs nothing of SkyRL's."""

    def __init__(
        self,
        inference_engine_client: Any,
        tokenizer: Any,
        settings: Mapping[str, Any] | str | Path | None = None,
        *,
        model: str | None = None,
        shape: Shape | None = None,
        may_be_empty: bool = False,
    ) -> None:
        """`settings` are a run's, as a mapping or a TOML file (by default the one that `ROLLOUTHUB_TRAINING` names).

        `model` is the adapter that the client is to ask, if any. `may_be_empty` hands out batches without anything to
        learn from, as fully asynchronous training needs, which asks for one group at a time.

        Raises:
            ConfigError: a setting does not hold.
        """
        found = given_settings(settings)
        self._engine = SkyrlEngine(inference_engine_client, model)
        self._shape, self._may_be_empty = shape or Shape(), may_be_empty
        named = model or getattr(inference_engine_client, "model_name", None) or "policy"
        self._worker = KeptWorker(lambda: _worker(found, self._engine, tokenizer, f"hosted_vllm/{named}"))

    async def generate(self, input_batch: Mapping[str, Any], disable_tqdm: bool = False) -> dict[str, Any]:
        """Play a batch; its trajectories in the order of the prompts.

        Raises:
            ConfigError, UnknownNameError: a row names no task.
            SupplyError: nothing of the batch may be learnt from, or the run has ended.
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
        return generator_output(list(zip(ids, rollouts, strict=True)), self._shape, may_be_empty=may_be_empty)

    async def close(self) -> None:
        """End the run before the event loop does."""
        await self._worker.close()


def wanted(
    env_extras: Sequence[Mapping[str, Any]] | None,
    trajectories: Sequence[Any],
    sampling_params: Mapping[str, Any] | None,
) -> list[SampleRequest]:
    """What a batch asks for. Rows of one instance are a group; groups of different batches are different ones.

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


@asynccontextmanager
async def _worker(
    settings: TrainingSettings, engine: SkyrlEngine, tokenizer: Any, name: str
) -> AsyncGenerator[RolloutWorker]:
    model = TokenModel(name, engine, settings.chat_format(tokenizer), max_context=settings.training.max_context)
    async with rollout_worker(
        settings.request, directory=settings.run_directory("skyrl"), model=model, suspect=settings.training.suspect
    ) as worker:
        yield worker


def generator_class() -> Any:
    """`HubGenerator`, as a `GeneratorInterface` of the SkyRL that is installed."""
    base: Any = system_module("skyrl.train.generators.base")
    made = type("HubGenerator", (Generation, base.GeneratorInterface), {"__doc__": Generation.__doc__})
    made.__module__ = "rollouthub.trainers.skyrl"
    return made
