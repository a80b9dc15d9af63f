"""Server-sent events are cut the same however their bytes arrive."""

import pytest

from rollouthub.http.server_events import EventReader

STREAM = (
    ": keep-alive\n\n"
    'data: {"a": "é😀"}\n\n'
    'event: message\r\ndata:{"b": 1}\r\n\r\n'
    'id: 7\ndata: {"c":\ndata: 2}\n\n'
    "\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = ['{"a": "é😀"}'.encode(), b'{"b": 1}', b'{"c":\n2}', b"[DONE]"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, len(STREAM)])
def test_events_are_the_same_in_any_pieces(size: int) -> None:
    reader = EventReader()
    found = [event for start in range(0, len(STREAM), size) for event in reader.feed(STREAM[start : start + size])]
    assert found == EVENTS
    assert reader.end() == []


def test_an_event_is_told_as_soon_as_it_is_complete() -> None:
    reader = EventReader()
    assert reader.feed(b"data: 1\n") == []
    assert reader.feed(b"\ndata: 2") == [b"1"]
    assert reader.end() == [b"2"]


def test_a_line_of_megabytes_in_small_pieces_is_read_in_linear_time() -> None:
    reader = EventReader()
    reader.feed(b"data: ")
    for _ in range(20_000):
        assert reader.feed(b"x" * 1000) == []
    (event,) = reader.feed(b"\n\n")
    assert len(event) == 20_000_000
