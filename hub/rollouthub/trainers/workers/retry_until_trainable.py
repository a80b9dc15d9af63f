"""Playing until there is something to learn from, for trainers that have no word for a rollout without a verdict."""

import logging

from rollouthub.export import NotTrainable, RefusalReason, TaskReference, why_refused
from rollouthub.protocols import Sampling
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream import SampleRequest
from rollouthub.trainers.workers.in_thread import ResidentWorker
from rollouthub.trainers.workers.worker_settings import TrainingSettings

logger = logging.getLogger(__name__)


async def play_learnable(
    resident: ResidentWorker, task: TaskReference, settings: TrainingSettings, sampling: Sampling | None = None
) -> Rollout:
    """Play a task for a trainer that does not say which member of which group it wants.

    Calls for one task follow one another, so every `repeats` of them are a group and share the environment's seed;
    without `repeats` they all do. What must not be learnt from is played again, `replays` times, as another member.

    Raises:
        NotTrainable: nothing came of it that may be learnt from.
        UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
    """
    size = settings.request.repeats
    group = str(resident.next_visit(task, "") // size) if size > 1 else "0"
    refused: RefusalReason | None = None
    for _ in range(1 + settings.training.replays):
        rollout = await resident.played(
            SampleRequest(
                task.task_id,
                environment=task.environment,
                split=task.split,
                group=group,
                sample=resident.next_visit(task, group),
                sampling=sampling,
            )
        )
        if (refused := why_refused(rollout)) is None:
            return rollout
        logger.warning("rollout %s is not to be learnt from: %s", rollout.rollout_id, refused.reason)
    assert refused is not None, "there was at least one"
    raise NotTrainable(refused)
