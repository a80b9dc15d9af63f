"""DPO: one row per pair, with `prompt`, `chosen` and `rejected`; the prompt is the common beginning of both
conversations.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rollouthub.export.conversation import messages_of, same_words
from rollouthub.export.formats.conversations import (
    IMAGES,
    OTHER_MEDIA,
    WordRows,
    WrittenConversation,
    chat,
    cut,
    words_of,
)
from rollouthub.export.formats.data_columns import IDENTITY, Columns, Row, identity
from rollouthub.export.left_out import LeftOut
from rollouthub.export.pairs import earned, pairs, reward_gap
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.messages import Message, media_of

NO_PAIR, PROMPTS_DIFFER, SAME_WORDS = "no_pair", "prompts_differ", "same_words"
"""Reasons of left-out rollouts."""
_REASONS = {
    NO_PAIR: "no other of its group is so much better or worse, or enough pairs are",
    PROMPTS_DIFFER: "the other of its pair was asked something else",
    SAME_WORDS: "the other of its pair said the same",
    OTHER_MEDIA: "its pair was shown pictures after it parted",
}


class Dpo(WordRows):
    """One row for each pair of samples of one task."""

    options = frozenset({"pairs", "most_pairs", "margin"})

    def columns(self, recipe: Recipe, has_images: bool) -> Columns:
        """The columns of a row."""
        tokens: Columns = [
            ("prompt_token_ids", "ids"),
            ("chosen_token_ids", "ids"),
            ("chosen_loss_mask", "ids"),
            ("rejected_token_ids", "ids"),
            ("rejected_loss_mask", "ids"),
        ]
        return [
            ("prompt", "jsons"),
            ("chosen", "jsons"),
            ("rejected", "jsons"),
            ("tools", "text"),
            *(IMAGES if has_images else []),
            *(tokens if recipe.tokens else []),
            ("chosen_rollout_id", "text"),
            ("rejected_rollout_id", "text"),
            *IDENTITY,
            ("chosen_reward", "real"),
            ("rejected_reward", "real"),
            ("margin", "real"),
        ]

    def rows(self, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> Iterator[Row]:
        """The rows of a group. Members that are in no pair are counted as left out, once each."""
        found = {rollout.rollout_id: words_of(rollout, group, recipe, left_out) for rollout in group.rollouts}
        usable = [rollout for rollout in group.rollouts if found[rollout.rollout_id] is not None]
        used: set[str] = set()
        unlike: dict[str, str] = {}
        for better, worse in pairs(
            usable,
            recipe.pairs or "best_worst",
            margin=recipe.margin or 0.0,
            most=recipe.most_pairs,
            seat=recipe.seat,
        ):
            chosen, rejected = found[better.rollout_id], found[worse.rollout_id]
            assert chosen is not None
            assert rejected is not None
            parted = _parted(chosen, rejected)
            members = (better.rollout_id, worse.rollout_id)
            if isinstance(parted, _Parted):
                used.update(members)
                yield _row(parted, group, recipe.seat)
            else:
                unlike.update(dict.fromkeys(members, parted))
        for rollout in usable:
            if rollout.rollout_id not in used:
                name = unlike.get(rollout.rollout_id, NO_PAIR)
                left_out.add(name, rollout.rollout_id, _REASONS[name])


@dataclass(frozen=True, slots=True)
class _Parted:
    """Two conversations, and the index of the turn at which they diverge."""

    chosen: WrittenConversation
    rejected: WrittenConversation
    turn: int

    @property
    def asked(self) -> list[Message]:
        """The common messages of both conversations."""
        return [*messages_of(self.chosen.chain[: self.turn]), *self.chosen.chain[self.turn].messages]


def _parted(chosen: WrittenConversation, rejected: WrittenConversation) -> _Parted | str:
    """Where two conversations diverge: at the first differing answer, or at the last answer before other messages
    differ.

    With token ids, the prompts of that turn must have equal ids, too. Returns the reason instead if the pair cannot be
    used.
    """
    best, worst = chosen.chain, rejected.chain
    if not _same(best[0].messages, worst[0].messages):
        return PROMPTS_DIFFER
    turn = 0
    while (
        turn < min(len(best), len(worst)) - 1
        and same_words(best[turn].response, worst[turn].response)
        and _same(best[turn + 1].messages, worst[turn + 1].messages)
    ):
        turn += 1
    if len(best) == len(worst) == turn + 1 and same_words(best[turn].response, worst[turn].response):
        return SAME_WORDS
    while chosen.segment is not None and not _same_ids(chosen, rejected, turn):
        if not turn:
            return PROMPTS_DIFFER
        turn -= 1
    parted = _Parted(chosen, rejected, turn)
    if any(media_of(messages_of(words.chain)[len(parted.asked) :]) for words in (chosen, rejected)):
        return OTHER_MEDIA
    return parted


def _same(one: tuple[Message, ...], other: tuple[Message, ...]) -> bool:
    return len(one) == len(other) and all(map(same_words, one, other))


def _same_ids(chosen: WrittenConversation, rejected: WrittenConversation, turn: int) -> bool:
    """Whether both conversations have the same prompt ids at a turn, and their rows begin with these."""
    assert chosen.segment is not None
    assert rejected.segment is not None
    asked = chosen.chain[turn].prompt_token_ids
    return (
        asked is not None
        and asked == rejected.chain[turn].prompt_token_ids
        and chosen.segment.token_ids.startswith(asked)
        and rejected.segment.token_ids.startswith(asked)
    )


def _row(parted: _Parted, group: ScoredGroup, seat: str | None) -> Row:
    chosen, rejected = parted.chosen, parted.rejected
    asked = len(parted.asked)
    row: Row = {
        "prompt": chat(parted.asked),
        "chosen": chat(messages_of(chosen.chain)[asked:]),
        "rejected": chat(messages_of(rejected.chain)[asked:]),
        "tools": chosen.tools,
    }
    if group.has_images:
        row["images"] = chosen.images
    if chosen.segment is not None and rejected.segment is not None:
        ids = chosen.chain[parted.turn].prompt_token_ids
        assert ids is not None
        row["prompt_token_ids"], row["chosen_token_ids"], row["chosen_loss_mask"] = cut(chosen.segment, len(ids))
        _, row["rejected_token_ids"], row["rejected_loss_mask"] = cut(rejected.segment, len(ids))
    return {
        **row,
        "chosen_rollout_id": chosen.rollout.rollout_id,
        "rejected_rollout_id": rejected.rollout.rollout_id,
        **identity(chosen.rollout, token_exact=chosen.is_exact and rejected.is_exact),
        "chosen_reward": earned(chosen.rollout, seat),
        "rejected_reward": earned(rejected.rollout, seat),
        "margin": reward_gap(chosen.rollout, rejected.rollout, seat),
    }
