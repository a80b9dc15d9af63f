"""Reads untrusted PNG files without a library, with bounded size and memory."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rollouthub_servers.drawing.bad_drawing import BadDrawing
from rollouthub_servers.visual.canvas import Rgb

MOST_SIDE = 1024
BEGINNING = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Colour type → bytes per pixel."""


@dataclass(frozen=True)
class Pixels:
    """A decoded picture."""

    width: int
    height: int
    rows: list[bytearray]
    channels: int
    palette: list[Rgb]
    """The palette; empty if the picture has none."""
    clear: bytes
    """Opacity (0 to 255) of the palette's first colours; the rest are opaque."""

    def colour_at(self, x: int, y: int) -> Rgb:
        """A pixel's colour, blended with white if it is not opaque."""
        pixel = self.rows[y][x * self.channels : (x + 1) * self.channels]
        opacity = 255
        if self.palette:
            place = pixel[0]
            if place >= len(self.palette):
                raise BadDrawing("a pixel of the PNG names a colour that is not in its palette")
            red, green, blue = self.palette[place]
            opacity = self.clear[place] if place < len(self.clear) else 255
        else:
            if self.channels in (2, 4):
                opacity = pixel[-1]
            red, green, blue = pixel[:3] if self.channels > 2 else (pixel[0],) * 3
        if opacity == 255:
            return red, green, blue
        return _over_white(red, opacity), _over_white(green, opacity), _over_white(blue, opacity)


def _over_white(value: int, opacity: int) -> int:
    return (value * opacity + 255 * (255 - opacity)) // 255


def read_png(content: bytes) -> Pixels:
    """Decode a PNG file with at most eight bits per channel, not interlaced.

    Raises:
        BadDrawing: it is not such a file, is damaged, or is larger than `MOST_SIDE` pixels a side.
    """
    if not content.startswith(BEGINNING):
        raise BadDrawing("the picture is no PNG")
    chunks = list(_chunks(content))
    header = next((data for name, data in chunks if name == b"IHDR"), b"")
    if len(header) != 13:
        raise BadDrawing("the PNG has no header")
    width, height = int.from_bytes(header[:4]), int.from_bytes(header[4:8])
    depth, kind, compression, filtering, interlace = header[8:]
    if not (0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE):
        raise BadDrawing(f"the PNG has {width:,} by {height:,} pixels; {MOST_SIDE} a side are read")
    is_known = depth == 8 or (depth in (1, 2, 4) and kind in (0, 3))
    if not is_known or kind not in _CHANNELS or compression or filtering or interlace:
        raise BadDrawing("the PNG is of a sort that is not read; save it with 8 bits a channel, not interlaced")
    channels = _CHANNELS[kind]
    colours = next((data for name, data in chunks if name == b"PLTE"), b"") if kind == 3 else b""
    palette = [(colours[at], colours[at + 1], colours[at + 2]) for at in range(0, len(colours) - 2, 3)]
    if kind == 3 and not palette:
        raise BadDrawing("the PNG has no palette")
    packed = b"".join(data for name, data in chunks if name == b"IDAT")
    rows = _rows(packed, (width * channels * depth + 7) // 8, height, channels)
    if depth < 8:
        rows = [_unpacked(row, depth, 255 // (2**depth - 1) if kind == 0 else 1) for row in rows]
    clear = next((data for name, data in chunks if name == b"tRNS"), b"") if kind == 3 else b""
    return Pixels(width, height, rows, channels, palette, clear)


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(BEGINNING)
    while place + 12 <= len(content):
        length = int.from_bytes(content[place : place + 4])
        end = place + 8 + length
        name, data = content[place + 4 : place + 8], content[place + 8 : end]
        if end + 4 > len(content) or zlib.crc32(name + data) != int.from_bytes(content[end : end + 4]):
            raise BadDrawing("the PNG is damaged")
        yield name, data
        if name == b"IEND":
            return
        place = end + 4
    raise BadDrawing("the PNG is cut off")


def _rows(packed: bytes, wide: int, height: int, step: int) -> list[bytearray]:
    """Decompress the rows and undo their filters."""
    expected = (wide + 1) * height
    try:
        raw = zlib.decompressobj().decompress(packed, expected)
    except zlib.error:
        raise BadDrawing("the PNG is damaged") from None
    if len(raw) < expected:
        raise BadDrawing("the PNG is cut off")
    rows: list[bytearray] = []
    above = bytearray(wide)
    for start in range(0, expected, wide + 1):
        row = bytearray(raw[start + 1 : start + 1 + wide])
        undo = _UNDO.get(raw[start])
        if undo is None:
            raise BadDrawing("the PNG is damaged")
        undo(row, above, step)
        rows.append(row)
        above = row
    return rows


def _unpacked(row: bytearray, depth: int, factor: int) -> bytearray:
    """Unpack pixels that share bytes to one byte each."""
    shifts, mask = range(8 - depth, -1, -depth), 2**depth - 1
    return bytearray((byte >> shift & mask) * factor for byte in row for shift in shifts)


def _undo_none(row: bytearray, above: bytearray, step: int) -> None:
    return


def _undo_left(row: bytearray, above: bytearray, step: int) -> None:
    for at in range(step, len(row)):
        row[at] = (row[at] + row[at - step]) & 255


def _undo_above(row: bytearray, above: bytearray, step: int) -> None:
    row[:] = bytes([(value + up) & 255 for value, up in zip(row, above, strict=True)])


def _undo_average(row: bytearray, above: bytearray, step: int) -> None:
    for at, up in enumerate(above):
        left = row[at - step] if at >= step else 0
        row[at] = (row[at] + (left + up) // 2) & 255


def _undo_paeth(row: bytearray, above: bytearray, step: int) -> None:
    for at, up in enumerate(above):
        left, corner = (row[at - step], above[at - step]) if at >= step else (0, 0)
        by_left, by_up, by_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
        nearest = left if by_left <= by_up and by_left <= by_corner else up if by_up <= by_corner else corner
        row[at] = (row[at] + nearest) & 255


_UNDO: dict[int, Callable[[bytearray, bytearray, int], None]] = {
    0: _undo_none,
    1: _undo_left,
    2: _undo_above,
    3: _undo_average,
    4: _undo_paeth,
}
