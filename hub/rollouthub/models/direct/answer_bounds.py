"""Bounds of what a server answers: how many values, token ids and tool calls are read, before they are."""

from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from rollouthub.event_loop import MOST_VALUES, has_marks, is_crowded

MOST_CALLS = 1000
"""Most tool calls in one answer."""
MOST_TOKENS = 2_000_000
"""Most token ids of an answer or of its prompt, and most log-probabilities: more than any model's context."""
_MOST_LISTS = 1000
"""Most lists in SGLang's own part of an answer, which has one for each choice."""


class BadAnswer(Exception):
    """A body that is not a valid answer; the message says why.

    `sent_error` is the error object in the body, if the server sent one, whatever the HTTP status.
    """

    def __init__(self, problem: str, sent_error: Any = None) -> None:
        super().__init__(problem)
        self.sent_error = sent_error


class TooLong(BadAnswer):
    """An answer in which the model wrote more values than the hub reads. It is the model's fault, not the server's."""


_ABSENT = Raw(b"")


class _ChoiceOutline(Struct, gc=False):
    message: Raw = _ABSENT
    delta: Raw = _ABSENT
    logprobs: Raw = _ABSENT
    token_ids: Raw = _ABSENT
    prompt_token_ids: Raw = _ABSENT
    response_token_ids: Raw = _ABSENT
    weight_versions: Raw = _ABSENT


class _Outline(Struct, gc=False):
    """The parts of a body. What the model wrote is checked for its number of values; token ids and log-probabilities
    may be long, but no longer than a context.
    """

    choices: Raw = _ABSENT
    error: Raw = _ABSENT
    message: Raw = _ABSENT
    code: Raw = _ABSENT
    metadata: Raw = _ABSENT
    prompt_token_ids: Raw = _ABSENT
    sglext: Raw = _ABSENT


_outlines = msgspec.json.Decoder(_Outline)
_only_choice = msgspec.json.Decoder(tuple[_ChoiceOutline])


def check_crowding(body: bytes) -> None:
    """Before decoding, refuse an answer or chunk with more values than the hub reads.

    Raises:
        TooLong: the model wrote too many.
        BadAnswer: the server did: token ids beyond any context, choices that were not asked for.
        msgspec.DecodeError: the body is not JSON, or not in the API's format.
    """
    if not has_marks(body):
        return
    outline = _outlines.decode(body)
    choice = _outline_of_choice(bytes(outline.choices))
    if any(is_crowded(bytes(part)) for part in (outline.error, choice.message, choice.delta)):
        raise TooLong(f"the answer holds more than {MOST_VALUES:,} values")
    ids = (outline.prompt_token_ids, choice.token_ids, choice.prompt_token_ids, choice.response_token_ids)
    for part in (*ids, outline.sglext):
        check_length(bytes(part).count(b","))
    check_length(bytes(choice.logprobs).count(b"{"))
    others = (outline.message, outline.code, outline.metadata, choice.weight_versions)
    if any(is_crowded(bytes(part)) for part in others) or bytes(outline.sglext).count(b"[") > _MOST_LISTS:
        raise BadAnswer(f"the answer holds more than {MOST_VALUES:,} values that no model wrote")


def _outline_of_choice(raw: bytes) -> _ChoiceOutline:
    """The outline of an answer's only choice; an empty one where there are more or none, which are few and small."""
    if raw:
        with suppress(msgspec.ValidationError):
            return _only_choice.decode(raw)[0]
        if is_crowded(raw):
            raise BadAnswer("the answer has other choices than the one that was asked for")
    return _ChoiceOutline()


def check_length(count: int) -> None:
    """Refuse so many token ids or log-probabilities.

    Raises:
        BadAnswer: there are more than any context has.
    """
    if count > MOST_TOKENS:
        raise BadAnswer(f"the answer has more than {MOST_TOKENS:,} token ids or log-probabilities")


def check_calls(count: int) -> None:
    """Refuse an answer with more than `MOST_CALLS` tool calls.

    Raises:
        TooLong: there are more.
    """
    if count > MOST_CALLS:
        raise TooLong(f"the answer has more than {MOST_CALLS:,} tool calls")
