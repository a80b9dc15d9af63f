"""Plays a task until a rollout is trainable, for trainers that cannot represent a rollout without a verdict."""

import logging

from rollouthub.export import NotTrainable, RefusalReason, TaskReference, why_refused
from rollouthub.generation import Sampling
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream import SampleRequest
from rollouthub.trainers.workers.in_thread import ThreadWorker
from rollouthub.trainers.workers.worker_settings import TrainingSettings

logger = logging.getLogger(__name__)


async def play_learnable(
    thread_worker: ThreadWorker, task: TaskReference, settings: TrainingSettings, sampling: Sampling | None = None
) -> Rollout:
    """Play a task for a trainer that does not say which member of which group it requests.

    Consecutive calls for one task are numbered: every `repeats` of them form a group and share the environment's seed;
    if `repeats` is 1, all calls for the task form one group with one seed. A rollout that must not be trained on is
    replaced by a further sample, up to `replays` times.

    Raises:
        NotTrainable: no sample may be trained on; the error has the reason of the last one.
        UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
    """
    size = settings.request.repeats
    group = str(thread_worker.next_sample(task, "") // size) if size > 1 else "0"
    refused: RefusalReason | None = None
    for _ in range(1 + settings.training.replays):
        rollout = await thread_worker.played(
            SampleRequest(
                task.task_id,
                environment=task.environment,
                split=task.split,
                group=group,
                sample=thread_worker.next_sample(task, group),
                sampling=sampling,
            )
        )
        if (refused := why_refused(rollout, seat=settings.training.seat)) is None:
            return rollout
        logger.warning("rollout %s is not to be learnt from: %s", rollout.rollout_id, refused.reason)
    assert refused is not None, "there was at least one"
    raise NotTrainable(refused)
