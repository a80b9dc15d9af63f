"""Estimates the tokens of a call before it is made, from the length of its text and from `max_tokens`."""

import math
from dataclasses import dataclass

from rollouthub.errors import ModelError
from rollouthub.generation import ModelRequest
from rollouthub.messages import Media, Message, media_of
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct.chat_wire import ToolSchemas
from rollouthub.models.media_tokens import media_tokens
from rollouthub.rollout import Usage

FIRST_RATIO = 1.0
"""Tokens per byte of prompt, until answers give a better estimate: no byte-level tokenizer makes more than one."""
FIRST_OUTPUT = 4096
"""Output tokens of a call without `max_tokens`, until answers give a better estimate."""
_MOST_PICTURES = 10_000
_PER_MESSAGE = 8
"""Bytes added for what a chat template writes around a message."""
_MARGIN = 1.25
"""Factor by which an estimate exceeds the largest recent value."""
_FADE = 0.05
"""The weight by which each answer moves the largest recent value towards its own, lower value."""
_MOST_BYTES_PER_TOKEN = 6
"""Most bytes of text per token, for a lower bound of a prompt's tokens."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Estimated upper bounds of a call's tokens."""

    size: int
    """Bytes of the call's prompt."""
    media_tokens: int
    prompt_tokens: int
    output_tokens: int
    least_tokens: int
    """Tokens that must be free in any case: the whole `max_tokens`, and a lower bound of the prompt's."""


class Estimator:
    """Estimates from the largest recent values of a model's answers, and at first from what is possible."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._tools = ToolSchemas()
        self._pictures: dict[str, int] = {}
        """Tokens of recent pictures and sounds, by digest."""
        # So that a margin on top makes the first guesses.
        self._ratio = FIRST_RATIO / _MARGIN
        self._output = FIRST_OUTPUT / _MARGIN

    def expect(self, request: ModelRequest) -> Expected:
        """Estimate a request's tokens."""
        size, media = memoryview(self._tools.encoded(request.tools)).nbytes if request.tools else 0, 0
        for message in request.messages:
            size += _size(message)
            if not isinstance(message.content, str):
                media += sum(self._media_tokens(part, request) for part in media_of((message,)))
        cap = request.sampling.max_tokens or self._config.sampling.max_tokens
        return Expected(
            size=size,
            media_tokens=media,
            prompt_tokens=math.ceil(size * self._ratio * _MARGIN) + media,
            output_tokens=cap if cap is not None else math.ceil(self._output * _MARGIN),
            least_tokens=(cap or 0) + size // _MOST_BYTES_PER_TOKEN,
        )

    def _media_tokens(self, part: Media, request: ModelRequest) -> int:
        known = self._pictures.get(part.digest)
        if known is None:
            if len(self._pictures) >= _MOST_PICTURES:
                self._pictures.clear()
            content = request.media.get(part.digest) or (None if part.is_file else part.read())
            known = self._pictures[part.digest] = media_tokens(self._config.name, part, content)
        return known

    def learn(self, expected: Expected, usage: Usage) -> None:
        """Adjust the estimate by a call's actual usage."""
        if usage.prompt_tokens and expected.size and not expected.media_tokens:
            self._ratio = _largest_of_late(self._ratio, usage.prompt_tokens / expected.size)
        if usage.output_tokens:
            self._output = _largest_of_late(self._output, usage.output_tokens)

    def reservation(self, expected: Expected, limit: int, owner: str) -> int:
        """How many of a minute's tokens to reserve for a call.

        An estimate above the limit is reduced to the limit, so the call has the minute to itself; tokens beyond it
        delay later calls.

        Raises:
            ModelError: the call can never fit into the limit.
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
    """Bytes of a message's text, plus those that a chat template adds."""
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
