"""`ChatFormat`: from words to a model's token ids, and back."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from mcp_types import Tool

from rollouthub.messages import Message


class ChatFormat(Protocol):
    """How a model's conversations are written down as token ids."""

    async def render(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, add_generation_prompt: bool
    ) -> list[int]:
        """The ids of a conversation; `add_generation_prompt` ends them where the assistant begins to speak.

        Raises:
            ModelError: it cannot be written in this format.
        """
        ...

    async def parse(self, token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """The message that sampled ids say. Never raises for what a model wrote: a broken tool call is words.

        A tool request whose `id` is empty is given one by the model that asks.
        """
        ...


@runtime_checkable
class PromptedChatFormat(ChatFormat, Protocol):
    """A format that reads an answer better when it knows what stands before it, such as a thought already begun."""

    async def parse_after(self, prompt_ids: Sequence[int], token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """The message that ids sampled after a prompt say; else as `parse`."""
        ...


@runtime_checkable
class ShowingChatFormat(ChatFormat, Protocol):
    """A format that writes down pictures, too: as many ids of one as the model sees of it."""

    async def render_shown(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        *,
        add_generation_prompt: bool,
        media: Mapping[str, bytes],
    ) -> list[int]:
        """The ids of a conversation that names media; `media` has their bytes by digest. Else as `render`.

        Raises:
            ModelError: it cannot be written in this format.
        """
        ...
