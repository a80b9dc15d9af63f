"""Refuses a server's answer with too many values before it is decoded, and tells the caller so."""

import msgspec
from mcp_types import INVALID_PARAMS, ErrorData, JSONRPCError

from rollouthub.event_loop import MOST_VALUES

_WORDS = f"the result holds more than {MOST_VALUES:,} values; ask for less at a time"
_EVENT_ENDS = (b"\r\n\r\n", b"\n\n", b"\r\r")


class _MessageOutline(msgspec.Struct):
    """The part of a message that is decoded."""

    id: int | str | None = None
    method: str | None = None


_decode = msgspec.json.Decoder(_MessageOutline).decode


def error_instead(message: bytes) -> JSONRPCError | None:
    """An error in place of an answer, as if the server had refused the call; None if the message is not an answer.

    Raises:
        ValueError: it is not a JSON-RPC message.
    """
    try:
        outline = _decode(message)
    except RecursionError:
        raise ValueError("the message nests too deeply") from None
    if outline.id is None or outline.method is not None:
        return None
    return JSONRPCError(jsonrpc="2.0", id=outline.id, error=ErrorData(code=INVALID_PARAMS, message=_WORDS))


def end_of_events(buffer: bytearray, start: int) -> int:
    """The position after the last complete server-sent event, searched from `start`; 0 if there is none."""
    places = ((buffer.rfind(end, max(0, start - 3)), end) for end in _EVENT_ENDS)
    return max(place + len(end) if place >= 0 else 0 for place, end in places)


def events_of(text: bytes) -> list[bytes]:
    """Split server-sent events, with line ends normalised to line feeds."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")


def data_of(event: bytes) -> bytes:
    """The data of an event."""
    return b"\n".join(line[5:].lstrip() for line in event.split(b"\n") if line.startswith(b"data:"))
