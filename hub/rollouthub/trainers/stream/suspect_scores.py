"""Suspect scores for trainers that are set to train on them; the stored records keep the mark."""

from dataclasses import replace

from rollouthub.engine.trainable import why_not_trainable
from rollouthub.rollout import SUSPECT, Rollout
from rollouthub.trainers.stream.rollout_group import RolloutGroup


def trusted(rollout: Rollout) -> Rollout:
    """A rollout without the mark that its score is suspect, so that it may be trained on; unchanged if it has no
    such mark.
    """
    score = rollout.score
    if score is None or score.suspect is None:
        return rollout
    update: dict[str, object] = {"score": score.model_copy(update={"suspect": None})}
    if (rollout.trainable_reason or "").startswith(SUSPECT):  # else there is another reason
        helped = bool(rollout.told)
        why = why_not_trainable(rollout.outcome, rollout.turns, is_privileged=False, had_interventions=helped)
        update |= {"trainable": why is None, "trainable_reason": why}
    return rollout.model_copy(update=update)


def trusted_group(group: RolloutGroup) -> RolloutGroup:
    """A group with the suspect mark removed from all its rollouts."""
    return replace(group, rollouts=tuple(map(trusted, group.rollouts)))
