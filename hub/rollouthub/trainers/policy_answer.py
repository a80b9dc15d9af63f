"""What a trainer's policy said, in any of the shapes trainers have it, as what a verifier is handed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from rollouthub.errors import ConfigError
from rollouthub.messages import Message, assistant
from rollouthub.models.foreign_chat import ChatMessage, read_chat, submitted
from rollouthub.score import Submission

Answer = str | Sequence[Message] | Sequence[Mapping[str, Any]]
"""Its words, or the conversation: messages of ours, or chat messages as OpenAI writes them."""

_MARK = re.compile(r"<\|[^<>|]+\|>|</s>|<eos>|<end_of_turn>")
_MARK_LENGTH = 100
"""The longest that a special token is written."""
_MOST_MARKS = 1000
_SPACES_AT_ONCE = 4096


def without_end_marks(text: str) -> str:
    """What was said, without the special tokens that end a turn and the white space around them; else as it is.

    Each letter is looked at once: what a policy writes may be nothing but white space, or marks without end, of which
    the last thousand are taken off.
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
    """Where the white space begins that ends there; looked at a little at a time, as nothing else is copied."""
    while end and text[end - 1].isspace():
        begin = max(0, end - _SPACES_AT_ONCE)
        end = begin + len(text[begin:end].rstrip())
    return end


def submission_of_answer(answer: Answer) -> Submission:
    """What is handed in: the last words said, or the answer given to a call of `submit`.

    Raises:
        ConfigError: it is neither words nor a conversation.
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
