"""KTO: one row per rollout, with `prompt`, `completion` and `label`; by default the label is the verifier's
`passed`.
"""

from collections.abc import Iterator

from rollouthub.export.conversation import messages_of
from rollouthub.export.formats.chosen import chosen_of
from rollouthub.export.formats.conversations import IMAGES, WordRows, chat, cut, words_of
from rollouthub.export.formats.data_columns import IDENTITY, Columns, Row, identity
from rollouthub.export.left_out import LeftOut
from rollouthub.export.pairs import earned
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.rollout import Rollout

NO_VERDICT = "no_verdict"
_TOKENS = ("prompt_token_ids", "completion_token_ids", "completion_loss_mask")


class Kto(WordRows):
    """One row per rollout: its prompt, its completion, and whether it is good."""

    options = frozenset({"best", "threshold"})

    def columns(self, recipe: Recipe, has_images: bool) -> Columns:
        """The columns of a row."""
        tokens: Columns = [
            ("prompt_token_ids", "ids"),
            ("completion_token_ids", "ids"),
            ("completion_loss_mask", "ids"),
        ]
        return [
            ("prompt", "jsons"),
            ("completion", "jsons"),
            ("label", "truth"),
            ("tools", "text"),
            *(IMAGES if has_images else []),
            *(tokens if recipe.tokens else []),
            ("rollout_id", "text"),
            *IDENTITY,
            ("sample", "small"),
            ("reward", "real"),
        ]

    def rows(self, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> Iterator[Row]:
        """The rows of a group."""
        for rollout in chosen_of(group, recipe, left_out):
            label = _label(rollout, recipe)
            if label is None:
                left_out.add(NO_VERDICT, rollout.rollout_id, "its verifier draws no line; give a threshold of reward")
                continue
            words = words_of(rollout, group, recipe, left_out)
            if words is None:
                continue
            asked = list(words.chain[0].messages)
            row: Row = {
                "prompt": chat(asked),
                "completion": chat(messages_of(words.chain)[len(asked) :]),
                "label": label,
                "tools": words.tools,
            }
            if group.has_images:
                row["images"] = words.images
            if words.segment is not None:
                row |= dict(zip(_TOKENS, cut(words.segment, words.segment.prompt_length), strict=True))
            yield {
                **row,
                "rollout_id": rollout.rollout_id,
                **identity(rollout, token_exact=words.is_exact),
                "sample": rollout.sample,
                "reward": earned(rollout, recipe.seat),
            }


def _label(rollout: Rollout, recipe: Recipe) -> bool | None:
    assert rollout.score is not None
    reward = earned(rollout, recipe.seat)
    assert reward is not None
    return rollout.score.passed if recipe.threshold is None else reward >= recipe.threshold
