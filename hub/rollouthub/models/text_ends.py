"""Where each token of an answer ends in the answer's text, from the bytes that the tokens stand for."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from rollouthub.messages import Message
from rollouthub.values import Int32s


def text_ends(pieces: Sequence[bytes], message: Message) -> Int32s | None:
    """For each token, how many characters of the message's text it and the tokens before it hold; a character counts
    at the token with its last byte.

    `pieces` are the bytes of the tokens, with those of thoughts, tool calls and end marks. None if the message's text
    is not found in them at one place alone: nothing is guessed.
    """
    try:
        raw = b"".join(pieces).decode()
    except UnicodeDecodeError:
        return None
    begin = _begin(raw, message)
    if begin is None:
        return None
    end = begin + len(message.text)
    bytes_to = list(accumulate(len(character.encode()) for character in raw))
    held = (bisect_right(bytes_to, count) for count in accumulate(map(len, pieces)))
    return Int32s([min(max(count, begin), end) - begin for count in held])


def _begin(raw: str, message: Message) -> int | None:
    """Where the message's text begins in the raw answer, after the reasoning; None if that is not certain."""
    text, after = message.text, 0
    if not text:
        return None
    if message.reasoning:
        thought = raw.find(message.reasoning)
        if thought < 0:
            return None
        after = thought + len(message.reasoning)
    first = raw.find(text, after)
    return None if first < 0 or raw.find(text, first + 1) >= 0 else first
