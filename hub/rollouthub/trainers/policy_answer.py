"""A policy's answer, in any of the forms that trainers have it, as the submission that a verifier takes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from rollouthub.errors import ConfigError
from rollouthub.messages import Message, assistant
from rollouthub.models.foreign_chat import ChatMessage, read_chat, submitted
from rollouthub.score import Submission

Answer = str | Sequence[Message] | Sequence[Mapping[str, Any]]
"""An answer's text, or the whole conversation: the hub's messages, or chat messages in OpenAI's format."""

_MARK = re.compile(r"<\|[^<>|]+\|>|</s>|<eos>|<end_of_turn>")
_MARK_LENGTH = 100
"""Most characters of a special token as text."""
_MOST_MARKS = 1000
_SPACES_AT_ONCE = 4096


def without_end_marks(text: str) -> str:
    """The text without the end-of-turn tokens at its end and the white space around them; unchanged if there are none.

    The time is linear in the text's length, since a policy may write only white space or endless tokens; at most 1000
    tokens are removed.
    """
    found, end = len(text), len(text)
    for _ in range(_MOST_MARKS):
        end = _end_of_words(text, end)
        begin = text.rfind("<", max(0, end - _MARK_LENGTH), end)
        if begin < 0 or _MARK.fullmatch(text, begin, end) is None:
            return text[:end] if found < len(text) else text
        found = end = begin
    return text[:end]


def _end_of_words(text: str, end: int) -> int:
    """Index where the white space that ends at `end` begins; it searches in small pieces, to copy little."""
    while end and text[end - 1].isspace():
        begin = max(0, end - _SPACES_AT_ONCE)
        end = begin + len(text[begin:end].rstrip())
    return end


def submission_of_answer(answer: Answer) -> Submission:
    """The submission: the whole text as the last answer, or a conversation with the answer given to `submit`, if any.

    Raises:
        ConfigError: `answer` is neither text nor a conversation.
    """
    if isinstance(answer, str):
        return Submission(transcript=(assistant(answer),))
    messages: Sequence[Any] = answer
    if not isinstance(cast(object, answer), (list, tuple)):
        raise ConfigError(f"{answer!r:.100} is no answer: give its text, or a list of messages")
    if all(isinstance(message, Message) for message in messages):
        transcript = tuple(cast(Sequence[Message], messages))
    else:
        try:
            transcript = read_chat(msgspec.convert(list(messages), list[ChatMessage]))
        except (msgspec.ValidationError, ValueError) as error:
            raise ConfigError(f"{answer!r:.100} is no conversation: {error}") from error
    return Submission(answer=submitted(transcript), transcript=transcript)
