"""Scored groups: one row per training segment, its token arrays and the rollout's advantage within its group."""

from collections.abc import Iterator, Mapping

from rollouthub.export.anchor_states import anchor_group
from rollouthub.export.critic_view import critic_view, has_several_seats
from rollouthub.export.formats.chosen import chosen_of
from rollouthub.export.formats.conversations import OTHER_SEAT
from rollouthub.export.formats.data_columns import IDENTITY, Columns, Row, identity
from rollouthub.export.left_out import LeftOut
from rollouthub.export.not_trainable import Need, NotTrainable
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.export.training_row import TrainingRow, training_rows
from rollouthub.values import Float32s


class ScoredGroups:
    """One row per training segment: its token arrays, reward, and advantage within the group."""

    options = frozenset({"best", "advantage", "incomplete", "pack"})
    takes_whole_groups = True
    line_column = None

    def has_tokens(self, recipe: Recipe) -> bool:
        """Always true."""
        return True

    def need(self, recipe: Recipe) -> Need:
        """Token ids with the sampler's log-probabilities."""
        return "logprobs"

    def columns(self, recipe: Recipe, has_images: bool) -> Columns:
        """The columns of a row. There is none for pictures, because only the model's processor knows their positions
        in the ids.
        """
        return [
            ("rollout_id", "text"),
            *IDENTITY,
            ("sample", "small"),
            ("seat", "text"),
            ("segment", "small"),
            ("segments", "small"),
            ("weight", "real"),
            ("reward", "real"),
            ("components", "json"),
            ("advantage", "real"),
            ("group_size", "small"),
            ("is_truncated", "truth"),
            ("policy_version_min", "whole"),
            ("policy_version_max", "whole"),
            ("prompt_length", "small"),
            ("token_ids", "ids"),
            ("loss_mask", "ids"),
            ("logprobs", "reals"),
            ("process_rewards", "reals"),
            ("versions", "ids"),
            ("turn_ids", "ids"),
            ("turns", "jsons"),
            ("critic_view", "jsons"),
        ]

    def rows(self, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> Iterator[Row]:
        """The rows of a group."""
        advantages: dict[str, Mapping[str, float]] = {}
        for rollout in chosen_of(group, recipe, left_out):
            try:
                made = training_rows(rollout, suspect=recipe.suspect)
            except NotTrainable as error:
                left_out.refuse(error.refused)
                continue
            wanted = [row for row in made if recipe.seat in (None, row.segment.agent)]
            if not wanted:
                left_out.add(OTHER_SEAT, rollout.rollout_id, f"seat {recipe.seat!r} said nothing")
            for row in wanted:
                seat = row.segment.agent
                if seat not in advantages:
                    advantages[seat] = group.advantages(seat, recipe.advantage or "mean_std")
                yield _row(row, group, advantages[seat][rollout.rollout_id])


def _row(row: TrainingRow, group: ScoredGroup, advantage: float) -> Row:
    rollout, segment = row.rollout, row.segment
    return {
        "rollout_id": rollout.rollout_id,
        **identity(rollout, token_exact=True),
        "sample": rollout.sample,
        "seat": segment.agent,
        "segment": row.index,
        "segments": row.count,
        "weight": row.weight,
        "reward": row.reward,
        "components": row.components,
        "advantage": advantage,
        "group_size": len(group.members),
        "is_truncated": row.is_truncated,
        "policy_version_min": rollout.policy_version_min,
        "policy_version_max": rollout.policy_version_max,
        "prompt_length": segment.prompt_length,
        "token_ids": segment.token_ids,
        "loss_mask": segment.loss_mask,
        "logprobs": segment.logprobs,
        "process_rewards": Float32s([0.0] * segment.prompt_length + row.process_rewards),
        "versions": segment.versions,
        "turn_ids": segment.turn_ids,
        "turns": [_turn(row, index) for index in row.turns],
        "critic_view": critic_view(rollout) if has_several_seats(rollout) else [],
    }


def _turn(row: TrainingRow, index: int) -> dict[str, int | float | str]:
    """A turn of the row: its return, and the anchor state by which GiGPO compares it."""
    rollout = row.rollout
    return {
        "turn": index,
        "return": row.returns[index],
        "anchor_group": anchor_group(rollout, rollout.turns[index]),
    }
