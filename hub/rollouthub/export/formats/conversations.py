"""What formats of words share: a rollout's longest conversation, its tools and pictures, or why it has none."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.export.conversation import (
    BrokenConversation,
    ChatMessage,
    chain_segment,
    chat_message,
    has_engine_ids,
    longest_chain,
    media_of,
    messages_of,
)
from rollouthub.export.formats.data_columns import Columns
from rollouthub.export.left_out import LeftOut
from rollouthub.export.not_trainable import Need, Refusal
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.export.segment import Segment
from rollouthub.messages import Message
from rollouthub.packed import Int32s
from rollouthub.rollout import Rollout, Turn

OTHER_MEDIA, OTHER_SEAT = "other_media", "other_seat"
"""Names of what is left out: something that is neither words nor a picture; a seat that never spoke."""
IMAGES: Columns = [("images", "texts")]


class WordRows:
    """What formats of words have in common: rollouts are taken one by one, with token ids where they are asked for."""

    takes_whole_groups = False
    line_column = None

    def has_tokens(self, recipe: Recipe) -> bool:
        """Only if asked: a trainer tokenises words for whatever model it trains."""
        return bool(recipe.tokens)

    def need(self, recipe: Recipe) -> Need:
        """The engine's ids, where they are to be in the rows."""
        return "tokens" if recipe.tokens else "text"


@dataclass(frozen=True, slots=True)
class WrittenConversation:
    """A conversation to be written."""

    rollout: Rollout
    chain: tuple[Turn, ...]
    tools: str | None
    images: list[str]
    segment: Segment | None
    """With tokens: the ids of the same."""

    @property
    def is_exact(self) -> bool:
        """Whether the engine's ids of it are known."""
        return has_engine_ids(self.chain)


def words_of(rollout: Rollout, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> WrittenConversation | None:
    """A rollout's longest conversation; None where it has none to be learnt from, which is counted."""
    try:
        chain = longest_chain(rollout, recipe.seat)
        if not chain:
            seats = ", ".join(sorted({turn.agent for turn in rollout.turns}))
            left_out.add(OTHER_SEAT, rollout.rollout_id, f"seat {recipe.seat!r} said nothing; there spoke {seats}")
            return None
        tools = group.source.tools(rollout, chain)
        media = media_of(messages_of(chain))
        if strange := [part.mime_type for part in media if not part.mime_type.startswith("image/")]:
            left_out.add(OTHER_MEDIA, rollout.rollout_id, f"a message holds {strange[0]}")
            return None
        images = [str(group.source.media(part.digest)) for part in media]
        segment = chain_segment(rollout, chain) if recipe.tokens else None
        return WrittenConversation(rollout, chain, tools, images, segment)
    except (BrokenConversation, ValueError) as error:
        left_out.add(Refusal.CORRUPT.value, rollout.rollout_id, str(error))
        return None


def chat(messages: Sequence[Message]) -> list[ChatMessage]:
    """Messages as they stand in a row."""
    return [chat_message(message) for message in messages]


def cut(segment: Segment, place: int) -> tuple[Int32s, Int32s, Int32s]:
    """A token row before a place, and from it on; and the mask from there."""
    return segment.token_ids[:place], segment.token_ids[place:], segment.loss_mask[place:]
