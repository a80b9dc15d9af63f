"""Pictures, for a policy of veRL's that sees: written into prompts by its processor, handed to its engine, and to its
trainer with the rows that show them."""

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio.to_thread
from mcp_types import Tool

from rollouthub.errors import ConfigError, ModelError
from rollouthub.messages import Media, Message
from rollouthub.models.tokens import HfChatFormat
from rollouthub.models.tokens.engine_messages import shown_media
from rollouthub.rollout import Rollout
from rollouthub.store.media import media_name
from rollouthub.trainers.systems import system_module


class PromptPictures:
    """How a policy sees: its processor, as veRL calls it."""

    def __init__(self, processor: Any, settings: Mapping[str, Any]) -> None:
        """`settings` are veRL's `data.mm_processor_kwargs`."""
        self._processor, self.settings = processor, dict(settings)
        self._tokenizers: Any = system_module("verl.utils.tokenizer")

    async def opened(self, raws: Iterable[bytes]) -> list[Any]:
        """Pictures as Pillow has them, in RGB.

        Raises:
            ModelError: one is none.
        """
        return await anyio.to_thread.run_sync(lambda: [_opened(raw) for raw in raws])

    async def encoded(self, text: str, raws: Sequence[bytes]) -> list[int]:
        """The ids of a written conversation, each picture as many as the policy sees of it.

        Raises:
            ModelError: the processor refuses it, or the template shows other pictures than the conversation.
        """
        pictures = await self.opened(raws)
        return await anyio.to_thread.run_sync(self._encoded, text, pictures)

    def _encoded(self, text: str, pictures: Sequence[Any]) -> list[int]:
        # The template has written the special tokens; the tokenizer must not add them a second time.
        settings = {"add_special_tokens": False, **self.settings}
        try:
            inputs = self._tokenizers.build_multimodal_processor_inputs(
                self._processor, text=[text], images=list(pictures), mm_processor_kwargs=settings
            )
        except Exception as error:  # a seam: processors raise what they like
            raise ModelError(f"the processor refuses the conversation's pictures: {error}", retryable=False) from error
        ids: list[int] = inputs["input_ids"][0].tolist()
        mark = self._tokenizers.get_processor_token_id(self._processor, "image")
        shown = sum(token == mark != before for before, token in pairwise([None, *ids]))
        if shown != len(pictures):
            raise ModelError(
                f"the conversation shows {len(pictures)} pictures, and as the chat template writes it {shown}",
                retryable=False,
            )
        return ids


def _opened(raw: bytes) -> Any:
    from PIL import Image  # a policy that sees pictures has it

    try:
        return Image.open(BytesIO(raw)).convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise ModelError(f"a picture cannot be opened: {error}", retryable=False) from error


class PictureChatFormat(HfChatFormat):
    """A chat format over a tokenizer's template and its model's processor."""

    def __init__(self, pictures: PromptPictures, tokenizer: Any, **settings: Any) -> None:
        """`settings` are those of `HfChatFormat`."""
        super().__init__(tokenizer, **settings)
        self._pictures = pictures

    async def render_shown(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        *,
        add_generation_prompt: bool,
        media: Mapping[str, bytes],
    ) -> list[int]:
        """The ids of a conversation with pictures.

        Raises:
            ModelError: the template or the processor does not take it, or it has sounds.
        """
        if other := next((each for each in _media(messages) if not each.mime_type.startswith("image/")), None):
            raise ModelError(
                f"the policy is shown pictures alone, and the conversation has {other.mime_type}", retryable=False
            )
        shown = shown_media(messages, media)
        if not shown:
            return await self.render(messages, tools, add_generation_prompt=add_generation_prompt)
        text = self.written(messages, tools, add_generation_prompt=add_generation_prompt)
        return await self._pictures.encoded(text, list(shown.values()))


def _media(messages: Iterable[Message]) -> list[Media]:
    return [
        part
        for message in messages
        if not isinstance(message.content, str)
        for part in message.content
        if isinstance(part, Media)
    ]


def shows_media(rollout: Rollout) -> bool:
    """Whether its policy was shown more than words."""
    return any(_media(turn.messages) for turn in rollout.turns)


async def pictures_of(rollout: Rollout, turn: int, directory: Path, pictures: PromptPictures | None) -> list[Any]:
    """The pictures that a turn's conversation shows, in its order, from its run's directory.

    Raises:
        ConfigError: it shows some, and there is no processor for them.
        ModelError: one cannot be opened.
        OSError: its bytes are not in the directory.
    """
    shown: list[Media] = []
    place: int | None = turn
    while place is not None:
        spoken = rollout.turns[place]
        shown, place = [*_media(spoken.messages), *shown], spoken.parent_turn
    if not shown:
        return []
    if pictures is None:
        raise ConfigError(
            "a rollout shows pictures, and there is no processor for its rows: play it in the agent loop or with "
            "HubAgentLoopManagerTQ, by a model that sees"
        )
    folder = directory / "media"
    return await pictures.opened((folder / media_name(each.digest)).read_bytes() for each in shown)
