"""What a call will take, before it is made: tokens from the length of its text and from `max_tokens`."""

import math
from dataclasses import dataclass

from rollouthub.errors import ModelError
from rollouthub.messages import Message, Text
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct.chat_wire import ToolSchemas
from rollouthub.protocols import ModelRequest
from rollouthub.rollout import Usage

FIRST_RATIO = 1.0
"""Tokens per byte of prompt until answers tell better: no byte-level tokenizer makes more than one."""
FIRST_OUTPUT = 4096
"""Output tokens of a call without `max_tokens`, until answers tell better."""
MEDIA_TOKENS = 2048
"""Tokens a picture or sound counts for; what a picture of a megapixel takes in common models."""

_PER_MESSAGE = 8
"""Bytes that stand for what a chat template puts around a message."""
_MARGIN = 1.25
"""What is expected above the largest of late."""
_FADE = 0.05
"""How fast the largest of late sinks towards the usual, per answer."""
_MOST_BYTES_PER_TOKEN = 6
"""Hardly any text has more bytes per token: what a prompt takes at the very least."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a call is expected to take at most."""

    size: int
    """Bytes of its prompt."""
    media_tokens: int
    prompt_tokens: int
    output_tokens: int
    least_tokens: int
    """What has to be free for it in any case: the whole `max_tokens`, and a prompt as short as its text can be."""


class Estimator:
    """Expects the most of what a model's answers have shown of late, and of what they could show at first."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._tools = ToolSchemas()
        # So that a margin on top makes the first guesses.
        self._ratio = FIRST_RATIO / _MARGIN
        self._output = FIRST_OUTPUT / _MARGIN

    def expect(self, request: ModelRequest) -> Expected:
        """What a request is expected to take."""
        size, media = memoryview(self._tools.encoded(request.tools)).nbytes if request.tools else 0, 0
        for message in request.messages:
            size += _size(message)
            if not isinstance(message.content, str):
                media += sum(not isinstance(part, Text) for part in message.content)
        cap = request.sampling.max_tokens or self._config.sampling.max_tokens
        return Expected(
            size=size,
            media_tokens=media * MEDIA_TOKENS,
            prompt_tokens=math.ceil(size * self._ratio * _MARGIN) + media * MEDIA_TOKENS,
            output_tokens=cap if cap is not None else math.ceil(self._output * _MARGIN),
            least_tokens=(cap or 0) + size // _MOST_BYTES_PER_TOKEN,
        )

    def learn(self, expected: Expected, usage: Usage) -> None:
        """Take notice of what a call really took."""
        if usage.prompt_tokens and expected.size and not expected.media_tokens:
            self._ratio = _largest_of_late(self._ratio, usage.prompt_tokens / expected.size)
        if usage.output_tokens:
            self._output = _largest_of_late(self._output, usage.output_tokens)

    def reservation(self, expected: Expected, limit: int, owner: str) -> int:
        """How many of a minute's tokens to set aside for a call.

        A guess larger than the limit is cut to it, and the call has the minute to itself; what it takes beyond holds
        up those after it.

        Raises:
            ModelError: it cannot fit into the limit at all.
        """
        if expected.least_tokens > limit:
            raise ModelError(
                f"{owner}: a call of {expected.size} bytes of prompt and up to {expected.output_tokens} output tokens "
                f"needs {expected.least_tokens} or more, but tokens_per_minute = {limit} never allows so many; "
                "raise it, or set max_tokens lower",
                retryable=False,
            )
        return min(expected.prompt_tokens + expected.output_tokens, limit)


def _size(message: Message) -> int:
    """Bytes of a message's text, with what a template puts around it."""
    content = message.content
    size = _PER_MESSAGE + _bytes(content if isinstance(content, str) else message.text)
    if message.reasoning is not None:
        size += _bytes(message.reasoning)
    for request in message.tool_requests:
        size += _PER_MESSAGE + _bytes(request.name) + _bytes(request.arguments)
    return size


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _largest_of_late(largest: float, seen: float) -> float:
    return seen if seen > largest else largest + (seen - largest) * _FADE
