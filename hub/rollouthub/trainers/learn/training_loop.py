"""`train`: plays, learns, and brings the new weights to the engines, until so many batches are learnt from."""

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread

from rollouthub.errors import ConfigError, SupplyError
from rollouthub.trainers.learn.checkpoints import STATE
from rollouthub.trainers.learn.learn_row import learning_rows
from rollouthub.trainers.learn.learner import Learner
from rollouthub.trainers.learn.weight_transfer import NoTransfer, WeightTransfer
from rollouthub.trainers.stream.open_stream import stream_rollouts
from rollouthub.trainers.stream.rollout_group import RolloutGroup

logger = logging.getLogger(__name__)

OnStep = Callable[[int, Mapping[str, float]], object]
"""Called after each step with the version and its figures."""


async def train(
    learner: Learner,
    *,
    directory: Path | str,
    steps: int,
    transfer: WeightTransfer | None = None,
    save_every: int = 10,
    keep: int = 2,
    max_refused: int = 8,
    on_step: OnStep | None = None,
    **stream: Any,
) -> None:
    """Train until the learner has learnt from `steps` batches. `stream` holds the settings of `stream_rollouts`.

    Generation goes on while the learner learns, within the stream's `max_staleness`. `directory` holds the run of all
    rollouts (`rollouts`) and the checkpoints (`checkpoints/version-N`, one every `save_every` steps and the last; the
    latest `keep` are kept). Where it has some already, the training goes on from the latest: batches that were learnt
    from since are handed out again.

    A batch that cannot be learnt from is left out, with a warning: it is no step, and the figures of the next have
    `refused_batches`, how many there were so far. `max_refused` of them in a row end the training. (A batch whose
    groups each earned the same is a step, although it has no gradient of its own: see `drop_constant`.)

    Raises:
        UsageError: a setting is invalid, or a model cannot be reached.
        SupplyError: the stream ended, `max_refused` batches in a row cannot be learnt from, or engines cannot be
            steered.
    """
    if max_refused < 1:
        raise ConfigError(f"max_refused is {max_refused}; give at least 1, the refused batches in a row that end it")
    folder, way = Path(directory), transfer or NoTransfer()
    checkpoints = folder / "checkpoints"
    if (latest := latest_checkpoint(checkpoints)) is not None and learner.version == 0:
        await anyio.to_thread.run_sync(learner.restore, latest)
        logger.info("going on from %s", latest)
    if learner.version >= steps:
        return
    if learner.version:
        await way.send(learner)  # nothing generates yet
        if way.control is not None:
            await way.control.updated(learner.version)  # engines may have a later version, and prefixes
    settings: dict[str, Any] = {"epochs": None, "max_staleness": 1, **stream}
    async with stream_rollouts(
        **settings,
        groups=True,
        directory=folder / "rollouts",
        resume=(folder / "rollouts" / "run.db").exists(),
        policy_version=learner.version,
        control=way.control,
    ) as supply:
        refused = in_a_row = 0
        while learner.version < steps:
            groups = await supply.batch()
            if not groups:
                raise SupplyError(f"the stream ended after {learner.version} of {steps} batches")
            try:
                learnt = await anyio.to_thread.run_sync(learn_from_groups, learner, groups)
            except NothingLearnableError as error:
                refused, in_a_row = refused + 1, in_a_row + 1
                if in_a_row >= max_refused:
                    raise SupplyError(
                        f"{in_a_row} batches in a row cannot be learnt from; the last: {error}"
                    ) from error
                logger.warning("a batch is left out (%d in a row, %d end it): %s", in_a_row, max_refused, error)
                continue
            in_a_row, figures = 0, {**learnt, "refused_batches": float(refused)}
            await supply.log(figures, step=learner.version)
            await supply.publish_weights(learner.version, lambda: way.send(learner))
            if learner.version % save_every == 0 or learner.version == steps:
                await anyio.to_thread.run_sync(_save, learner, checkpoints, keep)
            if on_step is not None:
                on_step(learner.version, figures)


class NothingLearnableError(SupplyError):
    """No group of a batch can be learnt from."""


def learn_from_groups(learner: Learner, groups: Sequence[RolloutGroup]) -> Mapping[str, float]:
    """Learn from a batch of groups; the figures have `reward`, the mean over their rollouts, too.

    Raises:
        NothingLearnableError: none of the groups can be learnt from; the message says why.
    """
    made = learning_rows(groups, learner.settings)
    if not made.rows:
        why = (
            made.refused[0].reason if made.refused else "every rollout was ended by a limit, and skip_truncated is set"
        )
        raise NothingLearnableError(f"none of {len(groups)} groups can be learnt from: {why}")
    for name, count in made.counts.items():
        logger.warning("%d groups are not learnt from: %s", count, name.value)
    rewards = [reward for group in groups for reward in group.rewards]
    return {"reward": sum(rewards) / len(rewards), **learner.learn(made.rows)}


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint in a folder; None if it has none."""
    return max((path.parent for path in folder.glob(f"version-*/{STATE}")), default=None)


def _save(learner: Learner, folder: Path, keep: int) -> None:
    learner.save(folder / f"version-{learner.version:06d}")
    for old in sorted(folder.glob(f"version-*/{STATE}"))[:-keep]:
        shutil.rmtree(old.parent)
