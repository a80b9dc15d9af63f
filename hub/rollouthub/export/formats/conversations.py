"""Shared by text formats: a rollout's longest conversation with its tools and pictures, or why it has none."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.export.conversation import (
    BrokenConversation,
    ChatMessage,
    chain_segment,
    chat_message,
    has_engine_ids,
    longest_chain,
    messages_of,
)
from rollouthub.export.formats.data_columns import Columns
from rollouthub.export.left_out import LeftOut
from rollouthub.export.not_trainable import Need, Refusal
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.export.segment import Segment
from rollouthub.messages import Message, media_of
from rollouthub.rollout import Rollout, Turn
from rollouthub.values import Int32s

OTHER_MEDIA, OTHER_SEAT = "other_media", "other_seat"
"""Reasons of left-out rollouts: a message holds media that the format cannot; the requested seat never spoke."""
IMAGES: Columns = [("images", "texts")]


class WordRows:
    """Base of text formats: rollouts are taken one by one, with token ids if requested."""

    takes_whole_groups = False
    line_column = None

    def has_tokens(self, recipe: Recipe) -> bool:
        """Only if requested, because a trainer tokenises text for the model that it trains."""
        return bool(recipe.tokens)

    def need(self, recipe: Recipe) -> Need:
        """The engine's token ids if rows are to have them; otherwise text."""
        return "tokens" if recipe.tokens else "text"


@dataclass(frozen=True, slots=True)
class WrittenConversation:
    """A conversation that is to be written as a row."""

    rollout: Rollout
    chain: tuple[Turn, ...]
    tools: str | None
    images: list[str]
    segment: Segment | None
    """The conversation's token ids, if requested."""

    @property
    def is_exact(self) -> bool:
        """Whether every turn has its engine's token ids."""
        return has_engine_ids(self.chain)


def words_of(
    rollout: Rollout, group: ScoredGroup, recipe: Recipe, left_out: LeftOut, kinds: tuple[str, ...] = ("image/",)
) -> WrittenConversation | None:
    """A rollout's longest conversation; None if it has none that can be written, which is counted in `left_out`.

    `kinds` are the beginnings of the media types that the format can hold.
    """
    try:
        chain = longest_chain(rollout, recipe.seat)
        if not chain:
            seats = ", ".join(sorted({turn.agent for turn in rollout.turns}))
            left_out.add(OTHER_SEAT, rollout.rollout_id, f"seat {recipe.seat!r} said nothing; there spoke {seats}")
            return None
        tools = group.source.tools(rollout, chain)
        media = media_of(messages_of(chain))
        if strange := [part.mime_type for part in media if not part.mime_type.startswith(kinds)]:
            left_out.add(OTHER_MEDIA, rollout.rollout_id, f"a message holds {strange[0]}")
            return None
        images = [str(group.source.media(part.digest)) for part in media]
        segment = chain_segment(rollout, chain) if recipe.tokens else None
        return WrittenConversation(rollout, chain, tools, images, segment)
    except (BrokenConversation, ValueError) as error:
        left_out.add(Refusal.CORRUPT.value, rollout.rollout_id, str(error))
        return None


def chat(messages: Sequence[Message]) -> list[ChatMessage]:
    """Messages in the form of a row."""
    return [chat_message(message) for message in messages]


def cut(segment: Segment, place: int) -> tuple[Int32s, Int32s, Int32s]:
    """The token ids before an index, those from it on, and the mask from it on."""
    return segment.token_ids[:place], segment.token_ids[place:], segment.loss_mask[place:]
