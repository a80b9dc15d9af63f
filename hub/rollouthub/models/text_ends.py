"""Where each token of an answer ends in the answer's text, from the bytes that the tokens stand for."""

from collections.abc import Sequence
from itertools import accumulate

from rollouthub.messages import Message
from rollouthub.values import Int32s

_GO_ON = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that go on with a character."""


def text_ends(pieces: Sequence[bytes], message: Message) -> Int32s | None:
    """For each token, how many characters of the message's text it and the tokens before it hold; a character counts
    at the token with its last byte.

    `pieces` are the bytes of the tokens, with those of thoughts, tool calls and end marks. None if the message's text
    is not found in them at one place alone: nothing is guessed.
    """
    whole = b"".join(pieces)
    try:
        raw = whole.decode()
    except UnicodeDecodeError:
        return None
    begin = _begin(raw, message)
    if begin is None:
        return None
    end = begin + len(message.text)
    # Counted by the bytes with which characters begin; a character that goes on in the next token counts there.
    begun = accumulate(len(piece.translate(None, _GO_ON)) for piece in pieces)
    next_bytes = map((whole + b" ").__getitem__, accumulate(map(len, pieces)))
    held = (count - (byte & 0xC0 == 0x80) for count, byte in zip(begun, next_bytes, strict=True))
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
