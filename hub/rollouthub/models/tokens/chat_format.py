"""`ChatFormat`: converts conversations to a model's token ids, and back."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from mcp_types import Tool

from rollouthub.messages import Message
from rollouthub.models.tokens.placed_media import PlacedMedia


class ChatFormat(Protocol):
    """How a model's conversations are rendered as token ids."""

    async def render(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, add_generation_prompt: bool
    ) -> list[int]:
        """The token ids of a conversation; with `add_generation_prompt`, up to the start of the assistant's answer.

        Raises:
            ModelError: the conversation cannot be rendered in this format.
        """
        ...

    async def parse(self, token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """The message in sampled ids. It never raises for the model's text: a malformed tool call becomes plain text.

        A tool request may have an empty `id`; the calling model assigns one.
        """
        ...


@runtime_checkable
class PromptedChatFormat(ChatFormat, Protocol):
    """A format whose parser also uses the prompt, such as reasoning that the prompt has already begun."""

    async def parse_after(self, prompt_ids: Sequence[int], token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """The message in ids that were sampled after a prompt; otherwise as `parse`."""
        ...


@runtime_checkable
class TokenBytesChatFormat(ChatFormat, Protocol):
    """A format that knows the bytes of each token."""

    async def token_bytes(self, token_ids: Sequence[int]) -> list[bytes] | None:
        """The bytes that each of the sampled ids adds to the decoded text; None if they do not add up to it."""
        ...


@runtime_checkable
class ShowingChatFormat(ChatFormat, Protocol):
    """A format that also renders pictures, each as the number of tokens that the model sees of it."""

    async def render_shown(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        *,
        add_generation_prompt: bool,
        media: Mapping[str, bytes],
    ) -> list[int]:
        """The ids of a conversation with media; `media` has their bytes by digest. Otherwise as `render`.

        Raises:
            ModelError: the conversation cannot be rendered in this format.
        """
        ...


@runtime_checkable
class PlacingChatFormat(ChatFormat, Protocol):
    """A format that also renders pictures, and says where in the ids each picture is; some engines need that."""

    async def render_placed(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        *,
        add_generation_prompt: bool,
        media: Mapping[str, bytes],
    ) -> tuple[list[int], tuple[PlacedMedia, ...]]:
        """The ids of a conversation with media, and the media in the ids' order. Otherwise as `render_shown`.

        A conversation without a generation prompt is only compared, so its media may lack their features.

        Raises:
            ModelError: the conversation cannot be rendered in this format.
        """
        ...
