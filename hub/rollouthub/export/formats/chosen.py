"""Selects the best members of a group, and counts the rest as left out."""

from rollouthub.export.left_out import LeftOut
from rollouthub.export.pairs import best_of
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.rollout import Rollout

NOT_BEST = "not_best"
"""Reason of a left-out rollout: other members of its group are better."""


def chosen_of(group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> tuple[Rollout, ...]:
    """The members that a data set takes, in the order of their samples."""
    if recipe.best is None:
        return group.rollouts
    best = {rollout.rollout_id for rollout in best_of(group.rollouts, recipe.best, recipe.seat)}
    for rollout in group.rollouts:
        if rollout.rollout_id not in best:
            left_out.add(NOT_BEST, rollout.rollout_id, f"{len(best)} of its group are better, or as good and earlier")
    return tuple(rollout for rollout in group.rollouts if rollout.rollout_id in best)
