"""Shared by both integrations of ROLL: the process's worker, its tasks, and the results of rollouts."""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rollouthub.engine.run_request import Retries
from rollouthub.export import NotTrainable, Refusal, TaskReference, one_reward, turn_rewards, why_refused
from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.rollout import Rollout
from rollouthub.trainers.roll.callers import CallersModel, asked_by
from rollouthub.trainers.stream import RolloutWorker, SampleRequest
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS, ThreadWorker
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings

logger = logging.getLogger(__name__)

_NAME = "roll"
UNSCORED = "unscored: "
"""Prefix of the reason that is recorded for an episode without a trainable score; the filters look for it."""


class SharedWorker:
    """One worker for all environments of a process, and the connections to ROLL's proxy."""

    def __init__(self, settings: TrainingSettings) -> None:
        # Another attempt would be another conversation, which ROLL takes for a branch of the first.
        request = settings.request.model_copy(update={"retries": Retries(infrastructure=0, verifier=0)})
        self.settings = settings.model_copy(update={"request": request})
        self.model = CallersModel()
        self.pool: HttpPool | None = None
        self._tasks: dict[tuple[str, str | None], Sequence[str]] = {}

    @property
    def thread_worker(self) -> ThreadWorker:
        """The worker, opened at first access."""
        return THREAD_WORKERS.get(_NAME, self._worker)

    @asynccontextmanager
    async def _worker(self) -> AsyncGenerator[RolloutWorker]:
        async with open_pool() as self.pool, self.settings.worker(_NAME, self.model, takes_seat=False) as worker:
            logger.info("ROLL's rollouts are recorded in %s", worker.directory)
            yield worker

    def task(self, seed: int, environment: str | None, split: str | None) -> TaskReference | None:
        """The task of a seed; None if the environment has no tasks."""
        name = environment or self.thread_worker.environments[0]
        chosen = split or self.settings.request.split
        key = name, chosen
        if key not in self._tasks:
            self._tasks[key] = [task.id for task in self.thread_worker.tasks(name, chosen)]
        tasks = self._tasks[key]
        return TaskReference(name, chosen or "", tasks[seed % len(tasks)]) if tasks else None

    def wanted(self, task: TaskReference, seed: int, caller: str) -> SampleRequest:
        """A request for the next sample of the seed's group: members share the seed, so they get the same task and
        environment seed.
        """
        group = str(seed)
        return SampleRequest(
            task.task_id,
            environment=task.environment,
            split=task.split or None,
            group=group,
            sample=self.thread_worker.next_sample(task, group),
            sampling=asked_by(caller),
        )


_stages: dict[str, SharedWorker] = {}


def stage(path: str | None = None) -> SharedWorker:
    """The process's shared worker for the settings file; a new one if the settings differ from the last.

    Raises:
        ConfigError: no settings are given, or one is invalid.
    """
    settings = read_settings(path)
    key = settings.model_dump_json()
    if key not in _stages:
        _stages.clear()
        _stages[key] = SharedWorker(settings)
    return _stages[key]


def why_unscored(rollout: Rollout, *, by_seat: bool = False) -> str | None:
    """Why an episode's score must not be trained on; None if it may. Token ids are not required, because ROLL
    records them itself. Unless rewards are taken `by_seat`, all trained seats must have earned the same.
    """
    refused = why_refused(rollout, "text")
    if refused is None and not by_seat:
        try:
            one_reward(rollout)
        except NotTrainable as error:
            refused = error.refused
    if refused is None:
        return None
    if refused.refusal is Refusal.UNSCORED and rollout.faults:
        return f"{UNSCORED}{refused.reason}: {rollout.faults[-1].message[:200]}"
    return f"{UNSCORED}{refused.reason}"


def step_scores(rollout: Rollout) -> list[float]:
    """The own reward of each turn of the policy; each seat's last turn also gets the seat's reward."""
    rewards = turn_rewards(rollout)
    return [rewards[turn.index] for turn in rollout.policy_turns]


def metrics_of(rollout: Rollout) -> dict[str, Any]:
    """The metrics that ROLL logs for an episode beside its score."""
    times = rollout.timings
    total = times.total or 1.0
    score = rollout.score
    return {
        **({} if score is None else {name: part.value for name, part in score.components.items()}),
        "finish_reason": rollout.stop.value,
        "rollout_id": rollout.rollout_id,
        "agent_execution_time_ratio": times.agent / total,
        "env_setup_time_ratio": times.setup / total,
        "time_total_sec": times.total,
    }
