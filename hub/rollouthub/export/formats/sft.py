"""SFT: one row per rollout, with `messages` and `tools`; with tokens also `input_ids`, `labels` and `loss_mask`."""

from collections.abc import Iterator

from rollouthub.export.conversation import messages_of
from rollouthub.export.formats.chosen import chosen_of
from rollouthub.export.formats.conversations import IMAGES, WordRows, chat, words_of
from rollouthub.export.formats.data_columns import IDENTITY, Columns, Row, identity
from rollouthub.export.left_out import LeftOut
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.values import Int32s

_NO_LOSS = -100


class Sft(WordRows):
    """One row per rollout: its conversation."""

    options = frozenset({"best", "pack"})

    def columns(self, recipe: Recipe, has_images: bool) -> Columns:
        """The columns of a row."""
        tokens: Columns = [("input_ids", "ids"), ("labels", "ids"), ("loss_mask", "ids")] if recipe.tokens else []
        return [
            ("messages", "jsons"),
            ("tools", "text"),
            *(IMAGES if has_images else []),
            *tokens,
            ("rollout_id", "text"),
            *IDENTITY,
            ("sample", "small"),
            ("turns", "small"),
            ("reward", "real"),
            ("passed", "truth"),
        ]

    def rows(self, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> Iterator[Row]:
        """The rows of a group."""
        for rollout in chosen_of(group, recipe, left_out):
            words = words_of(rollout, group, recipe, left_out)
            if words is None:
                continue
            assert rollout.score is not None
            row: Row = {"messages": chat(messages_of(words.chain)), "tools": words.tools}
            if group.has_images:
                row["images"] = words.images
            if words.segment is not None:
                ids, mask = words.segment.token_ids, words.segment.loss_mask
                labels = [token if learnt else _NO_LOSS for token, learnt in zip(ids, mask, strict=True)]
                row |= {"input_ids": ids, "labels": Int32s(labels), "loss_mask": mask}
            yield {
                **row,
                "rollout_id": rollout.rollout_id,
                **identity(rollout, token_exact=words.is_exact),
                "sample": rollout.sample,
                "turns": len(words.chain),
                "reward": rollout.reward,
                "passed": rollout.score.passed,
            }
