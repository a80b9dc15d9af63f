"""Suspect scores for a trainer that was told to learn from them, too; records keep their verifier's suspicion."""

from dataclasses import replace

from rollouthub.engine.trainable import why_not_trainable
from rollouthub.rollout import SUSPECT, Rollout
from rollouthub.trainers.stream.rollout_group import RolloutGroup


def trusted(rollout: Rollout) -> Rollout:
    """A rollout as if its verifier had no reason not to trust the reward; one without such a reason as it is."""
    score = rollout.score
    if score is None or score.suspect is None:
        return rollout
    update: dict[str, object] = {"score": score.model_copy(update={"suspect": None})}
    if (rollout.trainable_reason or "").startswith(SUSPECT):  # else there is another reason
        why = why_not_trainable(rollout.outcome, rollout.turns, is_privileged=False, is_told=bool(rollout.told))
        update |= {"trainable": why is None, "trainable_reason": why}
    return rollout.model_copy(update=update)


def trusted_group(group: RolloutGroup) -> RolloutGroup:
    """A group of such rollouts."""
    return replace(group, rollouts=tuple(map(trusted, group.rollouts)))
