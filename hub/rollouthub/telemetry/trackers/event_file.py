"""Writes and reads TensorBoard's event files: records of `Event` messages, with TensorFlow's framing and checksums.

Fields as in tensorboard/compat/proto (event, summary, tensor); framing as in TensorFlow's TFRecord.
"""

import math
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from rollouthub.telemetry.trackers.protobuf_wire import block, double, fields, number, single

_MASK = 0xA282EAD8
_LARGEST_RECORD = 64 * 2**20
"""A record with more bytes means that the file is damaged."""


def _table() -> tuple[int, ...]:
    rows: list[int] = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        rows.append(byte)
    return tuple(rows)


_CRC32C = _table()


def masked_sum(raw: bytes) -> int:
    """The CRC-32C of some bytes, masked as in TFRecord."""
    crc = 0xFFFFFFFF
    for byte in raw:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return (crc >> 15 | crc << 17) + _MASK & 0xFFFFFFFF


def framed(event: bytes) -> bytes:
    """A record: length, checksum of the length, the event, checksum of the event."""
    length = struct.pack("<Q", len(event))
    return b"".join((length, struct.pack("<I", masked_sum(length)), event, struct.pack("<I", masked_sum(event))))


def scalars(values: Mapping[str, float], step: int, seconds: float) -> bytes:
    """An event with one point of each of these curves; values that are not finite are left out."""
    summary = b"".join(
        block(1, block(1, tag) + single(2, value)) for tag, value in values.items() if math.isfinite(value)
    )
    return double(1, seconds) + number(2, step) + block(5, summary)


class EventFile:
    """A new event file in a folder; TensorBoard reads it together with the others there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        # The names sort by their time, and TensorBoard reads them in this order.
        name = f"events.out.tfevents.{now:017.6f}.{socket.gethostname()}.{os.getpid()}"
        self.path = folder / name
        self._file: BinaryIO = self.path.open("xb")
        self.add(double(1, now) + block(3, "brain.Event:2"))

    def add(self, event: bytes) -> None:
        """Append an event."""
        self._file.write(framed(event))

    def flush(self) -> None:
        """Make added events visible to readers."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_scalars(path: Path) -> Iterator[tuple[int, float, str, float]]:
    """The points in an event file of any program: step, Unix time in seconds, name, value.

    If the file ends within a record, because it is still being written, reading ends before that record.
    """
    for event in read_events(path):
        step, seconds = 0, 0.0
        summaries: list[bytes] = []
        try:
            for field, value in fields(event):
                if field == 1 and isinstance(value, bytes):
                    seconds = struct.unpack("<d", value)[0]
                elif field == 2 and isinstance(value, int):
                    step = value
                elif field == 5 and isinstance(value, bytes):
                    summaries.append(value)
            found = [point for summary in summaries for point in _values(summary)]
        except (ValueError, struct.error):
            return
        for tag, value in found:
            yield step, seconds, tag, value


def read_events(path: Path) -> Iterator[bytes]:
    """The messages in an event file, up to its end or to a damaged record."""
    with path.open("rb") as file:
        while True:
            head = file.read(12)
            if len(head) < 12:
                return
            length, check = struct.unpack("<QI", head)
            if length > _LARGEST_RECORD or check != masked_sum(head[:8]):
                return
            event = file.read(length)
            if len(event) < length or len(file.read(4)) < 4:
                return
            yield event


def _values(summary: bytes) -> Iterator[tuple[str, float]]:
    for field, entry in fields(summary):
        if field != 1 or not isinstance(entry, bytes):
            continue
        tag, value = "", None
        for name, held in fields(entry):
            if name == 1 and isinstance(held, bytes):
                tag = held.decode("utf-8", "replace")
            elif name == 2 and isinstance(held, bytes) and len(held) == 4:
                value = struct.unpack("<f", held)[0]
            elif name == 8 and isinstance(held, bytes):
                value = _tensor(held)
        if tag and value is not None:
            yield tag, value


def _tensor(message: bytes) -> float | None:
    """The number in a tensor with one number, as TensorFlow 2 writes scalars; None for any other tensor."""
    kind, raw = 0, b""
    for field, value in fields(message):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field in (4, 5, 6) and isinstance(value, bytes):
            raw = value
    forms = {1: "<f", 2: "<d"}
    if kind not in forms or len(raw) != struct.calcsize(forms[kind]):
        return None
    return struct.unpack(forms[kind], raw)[0]
