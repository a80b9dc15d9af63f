"""The part of Protocol Buffers' wire format that event files need: encoding and decoding of fields.

A library would cost every run 0.2 s of CPU time and 28 MB of memory for a few kilobytes of curves. Format:
https://protobuf.dev/programming-guides/encoding/
"""

import struct
from collections.abc import Iterator

Field = int | bytes
"""A decoded field: a varint as int, any other type as bytes."""


def number(field: int, value: int) -> bytes:
    """Encode a non-negative integer, an enum or a bool."""
    return _varint(field << 3) + _varint(value)


def double(field: int, value: float) -> bytes:
    """Encode a 64-bit float."""
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    """Encode a 32-bit float; a value out of range becomes infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _varint(field << 3 | 5) + packed


def block(field: int, value: bytes | str) -> bytes:
    """Encode bytes, text, or a message."""
    raw = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(raw)) + raw


def fields(message: bytes) -> Iterator[tuple[int, Field]]:
    """Decode a message: the number and value of each field, in order.

    Raises:
        ValueError: the bytes are not a valid message.
    """
    place, end = 0, len(message)
    while place < end:
        key, place = _read_varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _read_varint(message, place)
            yield key >> 3, value
            continue
        if kind == 2:
            size, place = _read_varint(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the kind {kind}")
        if place + size > end:
            raise ValueError("a field that ends behind its message")
        yield key >> 3, message[place : place + size]
        place += size


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(message) or shift > 63:
            raise ValueError("a number without an end")
        part = message[place]
        value |= (part & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if part < 0x80:
            return value, place
