"""`PictureChatFormat`: renders conversations with pictures by a tokenizer's chat template and the model's processor."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import Tool

from rollouthub.errors import ModelError
from rollouthub.messages import Message, media_of
from rollouthub.models.tokens import HfChatFormat
from rollouthub.models.tokens.engine_messages import shown_media
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures


class PictureChatFormat(HfChatFormat):
    """A chat format over a tokenizer's template and its model's processor."""

    def __init__(self, pictures: PromptPictures, tokenizer: Any, **settings: Any) -> None:
        """`settings` are the keyword arguments of `HfChatFormat`."""
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
        """The token ids of a conversation with pictures.

        Raises:
            ModelError: the template or the processor refuses the conversation, or it has other media than pictures.
        """
        if other := next((each for each in media_of(messages) if not each.mime_type.startswith("image/")), None):
            raise ModelError(
                f"the policy is shown pictures alone, and the conversation has {other.mime_type}", retryable=False
            )
        shown = shown_media(messages, media)
        if not shown:
            return await self.render(messages, tools, add_generation_prompt=add_generation_prompt)
        text = self.written(messages, tools, add_generation_prompt=add_generation_prompt)
        return await self._pictures.encoded(text, list(shown.values()))
