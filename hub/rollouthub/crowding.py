"""JSON of more values than are read: a decoder makes each of them while everything else waits."""

import anyio.lowlevel

MOST_VALUES = 50_000
"""In one message, or in the arguments of one call."""
LARGE_BYTES = 64 * 2**10
"""What is longer is decoded in a turn of its own."""
_MARKS = b",[{"


def is_crowded(text: str | bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON may hold more values than are read; commas and brackets in its strings count for none."""
    if len(text) <= most:
        return False
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if not has_marks(raw, most):
        return False
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if raw.count(b'"') > 4 * most:  # those of as many names and texts
        return True
    return has_marks(b"".join(raw.split(b'"')[::2]), most)


def has_marks(raw: bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON has more commas and brackets than that, in strings or not: far quicker to see, and mostly not so."""
    return len(raw) > most and len(raw) - len(raw.translate(None, _MARKS)) > most


async def is_crowded_message(raw: bytes) -> bool:
    """The same of a message that has come; others have their turn before a large one is decoded."""
    if len(raw) <= LARGE_BYTES:
        return is_crowded(raw)
    found = is_crowded(raw)
    await anyio.lowlevel.checkpoint()
    return found
