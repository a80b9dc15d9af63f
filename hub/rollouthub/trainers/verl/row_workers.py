"""Workers that play the tasks of veRL's rows: one for each combination of settings and policy in a process."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.generation import Sampling
from rollouthub.models.tokens import HfChatFormat, TokenModel
from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.picture_chat_format import PictureChatFormat
from rollouthub.trainers.stream import RolloutWorker, SampleRequest
from rollouthub.trainers.verl.verl_engine import VerlEngine
from rollouthub.trainers.verl.verl_pictures import VerlPictures
from rollouthub.trainers.workers.in_thread import ThreadWorker, ThreadWorkers
from rollouthub.trainers.workers.worker_settings import TrainingSettings

_UNKNOWN = -1
"""The policy version where veRL reports none."""

_thread_workers = ThreadWorkers()
_engines: dict[str, VerlEngine] = {}


@dataclass(frozen=True, slots=True)
class VerlPolicy:
    """The policy to sample from: veRL's engine, and how its conversations are rendered."""

    client: Any
    """veRL's `LLMServerClient`."""
    tokenizer: Any
    name: str
    prompt_length: int
    response_length: int
    tool_parser: str
    template_kwargs: Mapping[str, Any]
    pictures: VerlPictures | None = None
    """Prepares pictures for a vision-language policy; None for a text-only policy."""


class Playing:
    """A worker of this process, for callers in another event loop."""

    def __init__(self, worker: ThreadWorker, engine: VerlEngine | None) -> None:
        self._worker, self._engine = worker, engine

    @property
    def directory(self) -> Path:
        """The run's directory, which holds every record."""
        return self._worker.directory

    def advance(self, version: int) -> None:
        """Set the policy version for later generations, where the engine itself reports none.

        A version lower than the current one is ignored, because batches of several steps are played at once.
        """
        if version > self._worker.policy_version:
            self._worker.policy_version = version

    def scores_groups(self, environment: str | None = None) -> bool:
        """Whether an environment, by default any, scores all samples of a task together."""
        names = self._worker.environments if environment is None else (environment,)
        return any(map(self._worker.scores_groups, names))

    async def play(
        self, task: TaskReference, group: str | None, sampling: Sampling, group_size: int | None = None
    ) -> Rollout:
        """Play one further sample of a group. If the environment scores groups, `group_size` members are requested at
        once, and it is returned with the group's verdict.

        Raises:
            ConfigError: the environment scores groups, and the caller does not request whole ones.
            UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
        """
        if group_size is None and self._worker.scores_groups(task.environment):
            raise ConfigError(
                f"environment {task.environment!r} scores all samples of a task together, and veRL's own workers ask "
                "for them one by one; let rollout.agent.agent_loop_manager_class be "
                "rollouthub.trainers.verl.HubAgentLoopManagerTQ (trainer.use_v1=True) or HubAgentLoopManager"
            )
        sample = 0 if group is None else self._worker.next_sample(task, group)
        if self._engine is None:  # over a server the hub asks for log-probabilities itself, as its lane does
            extra = {name: value for name, value in sampling.extra.items() if name != "logprobs"}
            sampling = sampling.model_copy(update={"extra": extra})
        wanted = SampleRequest(
            task.task_id,
            environment=task.environment,
            split=task.split,
            group=group,
            sample=sample,
            sampling=sampling,
            group_size=group_size,
        )
        rollout = await self._worker.played(wanted)
        newest = None if self._engine is None else self._engine.newest(rollout.rollout_id)
        if newest is None or rollout.policy_version_max is None or newest <= rollout.policy_version_max:
            return rollout
        return rollout.model_copy(update={"policy_version_max": newest})


async def playing_with(settings: TrainingSettings, policy: VerlPolicy) -> Playing:
    """This process's worker for these settings: opened by the first call, closed when the process ends.

    If the settings name a `model`, it generates instead of veRL's client.

    Raises:
        UsageError: as `rollout_worker`.
    """
    loop = asyncio.get_running_loop()
    sees = policy.pictures is not None
    name = f"verl {policy.name} {policy.prompt_length} {policy.response_length} {sees} {settings.model_dump_json()}"

    def make() -> AbstractAsyncContextManager[RolloutWorker]:
        if settings.request.model is not None:
            return settings.worker("verl", policy_version=_UNKNOWN, no_groups=None)
        engine = VerlEngine(
            policy.client,
            loop,
            prompt_length=policy.prompt_length,
            response_length=policy.response_length,
            pictures=policy.pictures,
        )
        form = HfChatFormat if policy.pictures is None else partial(PictureChatFormat, policy.pictures)
        chat = form(
            policy.tokenizer,
            tool_parser=policy.tool_parser,
            template_kwargs=policy.template_kwargs,
            splits_thinking=settings.training.splits_thinking,
        )
        model = TokenModel(policy.name, engine, chat, max_context=settings.training.max_context)
        _engines[name] = engine
        return settings.worker("verl", model, policy_version=_UNKNOWN, no_groups=None)

    worker = await _thread_workers.opened(name, make)
    engine = _engines.get(name)
    if engine is not None:
        # hydra copies the client for every sample, and a caller without a loop of its own brings a new one each time.
        engine.client, engine.loop = policy.client, loop
    return Playing(worker, engine)


def task_of(fields: Mapping[str, Any]) -> TaskReference:
    """The task that a data row names, see `prompt_rows`.

    Raises:
        ConfigError: the row names no task.
    """
    for column, key in (("reward_model", "ground_truth"), ("extra_info", "task")):
        inner: object = fields.get(column)
        if isinstance(inner, Mapping):
            text = cast(Mapping[str, object], inner).get(key)
            if isinstance(text, str):
                return TaskReference.parse(text)
    raise ConfigError(
        "a row names no task of the hub: reward_model.ground_truth is to hold it, "
        "as `rollouthub.trainers.verl.prompt_rows` has it"
    )
