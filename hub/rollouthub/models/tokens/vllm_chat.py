"""`VllmChatFormat`: conversations rendered and parsed by a vLLM server, with its own template and parsers."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from mcp_types import Tool

from rollouthub.http.exchange import MAX_ANSWER_BYTES
from rollouthub.messages import Message, media_of
from rollouthub.models.direct.answer_bounds import BadAnswer
from rollouthub.models.direct.chat_wire import ToolSchemas, to_wire
from rollouthub.models.direct.completion import as_reply, parse_answer
from rollouthub.models.tokens.placed_media import PlacedMedia
from rollouthub.models.tokens.token_server import PROBE
from rollouthub.models.tokens.vllm_features import placed_media, read_rendered
from rollouthub.models.tokens.vllm_server import DERENDER, MOST_BYTES_A_MEDIUM, MOST_FEATURES_BYTES, RENDER, VllmServer

_SEED = 8
"""How many of a prompt's last ids are sent for detokenization."""


class VllmChatFormat:
    """A chat format implemented by a vLLM server."""

    def __init__(self, server: VllmServer, fields: Mapping[str, Any] | None = None) -> None:
        """`fields` are further fields of the server's chat requests: `chat_template_kwargs`, `reasoning_effort` …"""
        self._server, self._fields = server, dict(fields or {})
        self._tools = ToolSchemas()

    async def render(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, add_generation_prompt: bool
    ) -> list[int]:
        """The token ids of a conversation.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the server failed, or lost a picture or sound of the conversation.
        """
        ids, _ = await self.render_placed(messages, tools, add_generation_prompt=add_generation_prompt, media={})
        return ids

    async def render_placed(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        *,
        add_generation_prompt: bool,
        media: Mapping[str, bytes],
    ) -> tuple[list[int], tuple[PlacedMedia, ...]]:
        """The ids of a conversation, and the pictures and sounds in it with what the model is given of each.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the server failed, lost a medium, or could not be told where it is.
        """
        body = self._body([to_wire(message, media, with_reasoning=True) for message in messages], tools)
        shown = len(media_of(messages))
        if not add_generation_prompt:
            # These ids are only compared, so the pictures' tensors, which are megabytes, are left out.
            body |= {"add_generation_prompt": False, "mm_payload": "none"}
            shown = 0
        most_bytes = min(MOST_FEATURES_BYTES, MAX_ANSWER_BYTES + shown * MOST_BYTES_A_MEDIUM)
        answer, _ = await self._server.call(RENDER, body, most_bytes=most_bytes)
        try:
            rendered = read_rendered(answer)
            placed = placed_media(rendered, messages, self._server.name)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, BadAnswer) as error:
            raise self._server.bad_answer(RENDER, error) from None
        return rendered.token_ids, placed

    async def parse(self, token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """The message in sampled ids."""
        return await self.parse_after((), token_ids, tools)

    async def parse_after(self, prompt_ids: Sequence[int], token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """The message in ids that were sampled after a prompt.

        Raises:
            ModelError: the server failed.
        """
        generated = {
            "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": "stop"}],
            # A parser of thoughts looks in the prompt for one already begun.
            "prompt_token_ids": prompt_ids or None,
        }
        body = {
            "generate_response": generated,
            "prompt_token_ids": prompt_ids[-_SEED:] or None,
            "chat_request": {"model": self._server.endpoint.served_name, **self._body(PROBE, tools)},
        }
        answer, _ = await self._server.call(DERENDER, body)
        try:
            reply, _ = as_reply(parse_answer(answer), turn=0, version_header=None, price=_no_price, retries=0)
        except BadAnswer as error:
            raise self._server.bad_answer(DERENDER, error) from None
        return reply.message

    def _body(self, messages: Sequence[object], tools: Sequence[Tool]) -> dict[str, Any]:
        body: dict[str, Any] = {"messages": messages, **self._fields}
        if tools:
            body["tools"] = self._tools.encoded(tools)
        return body


def _no_price(prompt_tokens: int, output_tokens: int) -> float | None:
    return None
