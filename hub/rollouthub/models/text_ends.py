"""Where each token of an answer ends in the answer's text, from the bytes that the tokens stand for."""

from collections.abc import Sequence
from itertools import accumulate

from rollouthub.messages import Message
from rollouthub.values import Int32s

_CONTINUATION = bytes(range(0x80, 0xC0))
"""The continuation bytes of UTF-8."""


def text_ends(pieces: Sequence[bytes], message: Message) -> Int32s | None:
    """For each token, how many characters of the message's text it and the tokens before it hold; a character counts
    at the token with its last byte.

    `pieces` are the bytes of all tokens, those of reasoning, tool calls and end marks included. None if they do not
    hold the message's text exactly once after its reasoning: nothing is guessed.
    """
    whole = b"".join(pieces)
    try:
        raw = whole.decode()
    except UnicodeDecodeError:
        return None
    begin = _begin(raw, message)
    if begin is None:
        return None
    length = len(message.text)
    # Counts the first bytes of characters; a character that continues in the next token counts there.
    begun = accumulate([len(piece.translate(None, _CONTINUATION)) for piece in pieces], initial=-begin)
    next(begun)
    next_bytes = map((whole + b" ").__getitem__, accumulate(map(len, pieces)))
    held = (count - (0x80 <= byte < 0xC0) for count, byte in zip(begun, next_bytes, strict=True))
    return Int32s([0 if count < 0 else length if count > length else count for count in held])


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
