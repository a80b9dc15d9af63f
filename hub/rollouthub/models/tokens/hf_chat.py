"""`HfChatFormat`: renders conversations by a Hugging Face tokenizer and its chat template, without importing
`transformers`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import anyio.to_thread
from mcp_types import Tool

from rollouthub.errors import ModelError
from rollouthub.messages import Message, Text, ToolRequest
from rollouthub.models.tokens.tool_text import ToolParser, find_tool_parser

_LONG_CHARACTERS = 16_384
"""Longer texts, in characters, are encoded in a thread, because that takes longer than switching threads."""
_MANY_TOKENS = 512
"""The bytes of more tokens than these are found in a thread."""
_INCOMPLETE = "\ufffd"
"""The character that tokenizers decode an incomplete character to, whose other bytes are in the next tokens."""
_MOST_INCOMPLETE = 8
"""Maximum number of tokens of one character; without it, text that never completes one takes quadratic time."""
_THINKING_ENDS = "</think>"


class Tokenizer(Protocol):
    """The three methods of `transformers.PreTrainedTokenizerBase` that are used."""

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> Any:
        """Render the conversation as text (`tokenize=False`)."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool = ...) -> Any:
        """A text's token ids."""
        ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = ...) -> Any:
        """The text of token ids."""
        ...


class HfChatFormat:
    """A chat format over a tokenizer's template."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        tool_parser: str | ToolParser = "hermes",
        template_kwargs: Mapping[str, Any] | None = None,
        splits_thinking: bool = False,
    ) -> None:
        """`tool_parser` is the name of one of `TOOL_PARSERS`, or a function.

        `template_kwargs` are passed to the template (`{"enable_thinking": False}`). `splits_thinking` makes the text
        before `</think>` the message's reasoning, as a server's reasoning parser does.

        Raises:
            ConfigError: no parser has that name.
        """
        self._tokenizer = cast(Tokenizer, tokenizer)
        self._parse = find_tool_parser(tool_parser)
        self._template_kwargs = dict(template_kwargs or {})
        self._splits_thinking = splits_thinking

    async def render(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, add_generation_prompt: bool
    ) -> list[int]:
        """The token ids of a conversation.

        Raises:
            ModelError: the template refuses the conversation.
        """
        text = self.written(messages, tools, add_generation_prompt=add_generation_prompt)
        if len(text) > _LONG_CHARACTERS:
            return await anyio.to_thread.run_sync(self._encode, text)
        return self._encode(text)

    def written(self, messages: Sequence[Message], tools: Sequence[Tool], *, add_generation_prompt: bool) -> str:
        """A conversation as text by the template, with the template's placeholder for each picture.

        Raises:
            ModelError: the template refuses the conversation.
        """
        try:
            text = self._tokenizer.apply_chat_template(
                [template_message(message) for message in messages],
                tools=[template_tool(tool) for tool in tools] or None,
                add_generation_prompt=add_generation_prompt,
                tokenize=False,
                **self._template_kwargs,
            )
        except ModelError:
            raise
        except Exception as error:  # templates raise any exception
            raise ModelError(f"the chat template refuses the conversation: {error}", retryable=False) from error
        assert isinstance(text, str), "a chat template that is not to tokenize gives text"
        return text

    def _encode(self, text: str) -> list[int]:
        # The template has written the special tokens; the tokenizer must not add them a second time.
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    async def parse(self, token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """The message in sampled token ids."""
        text = str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))
        # Half a surrogate pair is no text: it could be neither stored nor sent.
        text = text.encode(errors="replace").decode()
        reasoning: str | None = None
        if self._splits_thinking and _THINKING_ENDS in text:
            thought, _, text = text.partition(_THINKING_ENDS)
            reasoning, text = thought.removeprefix("<think>").strip("\n"), text.lstrip("\n")
        spoken = self._parse(text, tools) if tools else None
        if spoken is None:
            return Message(role="assistant", content=text, reasoning=reasoning)
        return Message(
            role="assistant", content=spoken.words, reasoning=reasoning, tool_requests=tuple(spoken.requests)
        )

    async def token_bytes(self, token_ids: Sequence[int]) -> list[bytes] | None:
        """The bytes that each of the sampled ids adds to the decoded text; None if they do not add up to it."""
        if len(token_ids) > _MANY_TOKENS:
            return await anyio.to_thread.run_sync(self._token_bytes, token_ids)
        return self._token_bytes(token_ids)

    def _token_bytes(self, token_ids: Sequence[int]) -> list[bytes] | None:
        """Decode a growing window: a token that ends inside a character adds nothing, the next token all of it."""
        ids, pieces = list(token_ids), list[bytes]()
        begin = shown = 0
        known = ""
        for end in range(1, len(ids) + 1):
            text = str(self._tokenizer.decode(ids[begin:end], skip_special_tokens=True))
            if text.endswith(_INCOMPLETE) and end - shown < _MOST_INCOMPLETE:
                pieces.append(b"")
                continue
            if not text.startswith(known):
                return None
            pieces.append(text[len(known) :].encode(errors="replace"))
            # The tokens decoded last stay in the window, as some tokenizers write a token by the one before it.
            begin, shown = shown, end
            known = str(self._tokenizer.decode(ids[begin:shown], skip_special_tokens=True))
        whole = str(self._tokenizer.decode(ids, skip_special_tokens=True)).encode(errors="replace")
        return pieces if b"".join(pieces) == whole else None


def template_message(message: Message) -> dict[str, Any]:
    """A message in the form of chat templates: arguments as an object, because templates serialise them."""
    content: Any = message.content
    if not isinstance(content, str):
        if all(isinstance(part, Text) for part in content):
            content = message.text
        else:
            content = [
                {"type": "text", "text": part.text}
                if isinstance(part, Text)
                else {"type": part.mime_type.partition("/")[0]}
                for part in content
            ]
    written: dict[str, Any] = {"role": message.role, "content": content}
    if message.reasoning is not None:
        written["reasoning_content"] = message.reasoning
    if message.tool_requests:
        written["tool_calls"] = [_template_call(request) for request in message.tool_requests]
    if message.tool_call_id is not None:
        written["tool_call_id"] = message.tool_call_id
    return written


def _template_call(request: ToolRequest) -> dict[str, Any]:
    try:
        arguments: Any = json.loads(request.arguments)
    except (ValueError, RecursionError):
        arguments = request.arguments
    return {"type": "function", "id": request.id, "function": {"name": request.name, "arguments": arguments}}


def template_tool(tool: Tool) -> dict[str, Any]:
    """A tool in the form of chat templates."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    return {"type": "function", "function": {**function, "parameters": tool.input_schema}}
