"""Parses server-sent events, in which the OpenAI API streams its answers, and MCP servers send messages."""

from collections.abc import Mapping

EVENT_STREAM = "text/event-stream"
DONE = b"[DONE]"
"""The data of the event that ends a stream."""


def is_event_stream(headers: Mapping[str, str]) -> bool:
    """Whether an answer's body is an event stream; names of headers are in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == EVENT_STREAM


class EventReader:
    """Splits received bytes into the data of events; comments and other fields are ignored.

    Lines end in LF or CR LF; CR alone, which the standard also allows, is not supported, because no server of the API
    sends it.
    """

    __slots__ = ("_data", "_line")

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that these bytes complete."""
        lines = received.split(b"\n")
        # The pieces of a line are joined once, when it ends: a line may be as long as a whole answer.
        self._line.append(lines[0])
        if len(lines) == 1:
            return []
        lines[0] = b"".join(self._line)
        self._line = [lines.pop()]
        complete: list[bytes] = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                complete.append(b"\n".join(self._data))
                self._data = []
        return complete

    def end(self) -> list[bytes]:
        """The data of an unfinished event at the end of the stream, since some servers omit the last empty line."""
        return self.feed(b"\n\n")

    def whole(self, body: bytes) -> list[bytes]:
        """The data of all events of a stream that has arrived whole; empty ones are left out."""
        return [data for data in (*self.feed(body), *self.end()) if data]
