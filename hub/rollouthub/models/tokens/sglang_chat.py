"""`SglangChatFormat`: conversations rendered and parsed by an SGLang server, with its own template and parsers.

The parsers' routes take their text and name (`ParseFunctionCallReq` and `SeparateReasoningReqInput` in
`sglang/srt/managers/io_struct.py` of SGLang 0.5.23). They serve an answer that was broken off and continued, and one
to a conversation with pictures; any other is parsed by the chat route that samples it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import Tool
from msgspec import Struct

from rollouthub.event_loop import MOST_VALUES, is_crowded
from rollouthub.messages import Media, Message, Text, ToolRequest
from rollouthub.models.dialects import dialect_wire
from rollouthub.models.direct.answer_bounds import TooLong
from rollouthub.models.direct.chat_wire import ToolSchemas, WireMessage
from rollouthub.models.tokens.sglang_server import (
    DETOKENIZE,
    PARSE_CALLS,
    SEPARATE_REASONING,
    TOKENIZE,
    SglangServer,
    decoded,
)

_THINKING_BEGINS = "<think>"
_TAIL = 16
"""How many of a prompt's last ids are looked at for a thought that the template begins."""
_NO_PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
"""What stands for a picture where only the place of its token matters: the tokenizer's route loads none."""


class _Tokens(Struct):
    tokens: list[int]


class _Decoded(Struct):
    text: str


class _Separated(Struct):
    reasoning_text: str | None
    text: str | None


class _Called(Struct):
    name: str | None
    parameters: str


class _Calls(Struct):
    normal_text: str | None
    calls: list[_Called]


class SglangChatFormat:
    """A chat format implemented by an SGLang server. A picture is rendered as the one token that stands for it."""

    def __init__(self, server: SglangServer, fields: Mapping[str, Any] | None = None) -> None:
        """`fields` are further fields of the server's chat requests: `chat_template_kwargs`, `reasoning_effort` …"""
        self._server, self._fields = server, dict(fields or {})
        self._tools = ToolSchemas()

    async def render(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, add_generation_prompt: bool
    ) -> list[int]:
        """The token ids of a conversation.

        Raises:
            ModelError: the server failed, or its template refuses the conversation.
        """
        body: dict[str, Any] = {"messages": [placed_wire(message) for message in messages], **self._fields}
        if tools:
            body["tools"] = self._tools.encoded(tools)
        if not add_generation_prompt:
            body["add_generation_prompt"] = False
        answer, _ = await self._server.call(TOKENIZE, body)
        return decoded(self._server, TOKENIZE, answer, _Tokens).tokens

    async def render_shown(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        *,
        add_generation_prompt: bool,
        media: Mapping[str, bytes],
    ) -> list[int]:
        """The ids of a conversation with pictures. Otherwise as `render`."""
        return await self.render(messages, tools, add_generation_prompt=add_generation_prompt)

    async def parse(self, token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """The message in sampled ids."""
        return await self.parse_after((), token_ids, tools)

    async def parse_after(self, prompt_ids: Sequence[int], token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """The message in ids that were sampled after a prompt.

        Raises:
            ModelError: the server failed.
        """
        server, parsers = self._server, await self._server.parsers()
        reads_calls = bool(tools and parsers.tool_call_parser)
        text, reasoning = await self._text(token_ids, keeps_marks=reads_calls), None
        if parsers.reasoning_parser:
            begun = await self._text(prompt_ids[-_TAIL:], keeps_marks=True) if prompt_ids else ""
            if begun.rstrip().endswith(_THINKING_BEGINS):
                text = _THINKING_BEGINS + text
            body = {"text": text, "reasoning_parser": parsers.reasoning_parser}
            answer, _ = await server.call(SEPARATE_REASONING, body)
            separated = decoded(server, SEPARATE_REASONING, answer, _Separated)
            text, reasoning = separated.text or "", separated.reasoning_text or None
        if not reads_calls:
            return Message(role="assistant", content=text, reasoning=reasoning)
        body = {"text": text, "tools": self._tools.encoded(tools), "tool_call_parser": parsers.tool_call_parser}
        answer, _ = await server.call(PARSE_CALLS, body)
        if is_crowded(answer):
            raise server.bad_answer(PARSE_CALLS, TooLong(f"the answer holds more than {MOST_VALUES:,} values"))
        found = decoded(server, PARSE_CALLS, answer, _Calls)
        requests = tuple(ToolRequest(id="", name=call.name or "", arguments=call.parameters) for call in found.calls)
        return Message(role="assistant", content=found.normal_text or "", reasoning=reasoning, tool_requests=requests)

    async def _text(self, token_ids: Sequence[int], *, keeps_marks: bool) -> str:
        """Ids as text. As on the chat route, special tokens stay in where calls are parsed, as some are their marks."""
        body = {"tokens": list(token_ids), "skip_special_tokens": not keeps_marks}
        answer, _ = await self._server.call(DETOKENIZE, body)
        return decoded(self._server, DETOKENIZE, answer, _Decoded).text


def placed_wire(message: Message) -> WireMessage:
    """A message in the API's format, with an empty picture in each picture's place."""
    content = message.content
    if isinstance(content, str) or not any(isinstance(part, Media) for part in content):
        return dialect_wire(message, {}, "sglang")
    wire = dialect_wire(message.model_copy(update={"content": ""}), {}, "sglang")
    wire.content = [{"type": "text", "text": part.text} if isinstance(part, Text) else _NO_PICTURE for part in content]
    return wire
