"""The mock models' tokens: UTF-8 bytes, and two marker tokens for the start and the end of a message.

The rendering is append-only: the next turn's prompt ids begin with exactly this turn's prompt and output ids, as in a
real engine with a well-made chat template.
"""

from collections.abc import Sequence

from mcp_types import Tool

from rollouthub.messages import Message
from rollouthub.values import Float32s, Int32s

START, END = 256, 257
VOCABULARY = 258

_NEWLINE = 10
# Multiples of 1/64 are exact in 32 bits and in JSON, so that they compare equal over any lane.
LOGPROBS = tuple(-(1 + token % 64) / 64 for token in range(VOCABULARY))


def prompt_ids(messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
    """The prompt's token ids, up to the start of the assistant's answer."""
    ids: list[int] = []
    if tools:
        ids.append(START)
        ids += f"tools\n{' '.join(tool.name for tool in tools)}".encode()
        ids += (END, _NEWLINE)
    for message in messages:
        ids.append(START)
        ids += f"{message.role}\n{spoken(message)}".encode()
        ids += (END, _NEWLINE)
    ids.append(START)
    ids += b"assistant\n"
    return ids


def spoken(message: Message) -> str:
    """A message as the model's raw text: reasoning, text, then tool calls."""
    text = message.text if message.reasoning is None else f"<think>{message.reasoning}</think>{message.text}"
    if not message.tool_requests:
        return text
    calls = "".join(
        f'<tool_call>\n{{"name": "{request.name}", "arguments": {request.arguments}}}\n</tool_call>'
        for request in message.tool_requests
    )
    return text + calls


def output_ids(text: str) -> list[int]:
    """The token ids of a finished answer."""
    ids = list(text.encode())
    ids.append(END)
    return ids


def token_text(token: int) -> str:
    """A token's text in log-probability entries of the API."""
    if token == START:
        return "<|im_start|>"
    if token == END:
        return "<|im_end|>"
    return chr(token) if token < 128 else f"bytes:\\x{token:02x}"


def token_bytes(token: int) -> bytes:
    """The bytes that a token stands for."""
    return bytes([token]) if token < 256 else token_text(token).encode()


def packed(ids: list[int]) -> tuple[Int32s, Float32s]:
    """Output ids, and the log-probabilities that the mock assigns to them."""
    return Int32s(ids), Float32s([LOGPROBS[token] for token in ids])
