"""Decodes untrusted pictures within limits of bytes, pixels, formats and decoding time."""

import re
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from rollouthub.errors import UsageError

MAX_PICTURE_BYTES = 32 * 2**20
MAX_PIXELS = 2**25
"""Most pixels of one picture: 8192 × 4096."""
MAX_BATCH_PIXELS = 2**27
"""Most pixels of all pictures in memory at once: half a GiB."""
MAX_SCANS = 32
"""Most scans of a JPEG; cameras and libraries write up to a dozen. A scan takes a few bytes of file and as long to
decode as the whole picture, so that a small file could occupy a processor for hours.
"""
FORMATS = ("PNG", "JPEG", "WEBP")
"""The formats of answers; not all formats of Pillow, because it starts other programs to read some."""
_SEGMENT = re.compile(rb"\xff[\xc0-\xcf\xd9-\xfe]")
"""Marker of a JPEG segment or of the end: ITU-T T.81, B.1.1.3. Restart markers are left out: they are inside a scan."""
_END, _SCAN = 0xD9, 0xDA


class BadPicture(UsageError):
    """A picture that cannot be scored."""


def decoded_picture(content: bytes, batch_pixels: int = MAX_BATCH_PIXELS, formats: Sequence[str] = FORMATS) -> Any:
    """Decode a picture to a Pillow image in RGB; `batch_pixels` is the number of pixels still free in memory.

    Raises:
        BadPicture: says why it cannot be decoded.
    """
    from PIL import Image

    if len(content) > MAX_PICTURE_BYTES:
        raise BadPicture(f"it is larger than {MAX_PICTURE_BYTES >> 20} MiB")
    try:
        picture = Image.open(BytesIO(content), formats=tuple(formats))
        width, height = picture.size
        if width * height > MAX_PIXELS:
            raise BadPicture(f"a picture of {width} × {height} pixels is larger than the {MAX_PIXELS} there may be")
        if width * height > batch_pixels:
            raise BadPicture(f"the request's pictures have more than {MAX_BATCH_PIXELS} pixels; send fewer at once")
        if picture.format in ("JPEG", "MPO") and _scans(content) > MAX_SCANS:
            raise BadPicture(f"a JPEG of more than {MAX_SCANS} scans takes too long to read")
        return picture.convert("RGB")
    except BadPicture:
        raise
    except Exception as error:  # a decoder meets anything in what it is given
        raise BadPicture(f"it is no picture ({', '.join(formats)}): {type(error).__name__}") from error


def _scans(content: bytes) -> int:
    """Number of scans in a JPEG."""
    count = place = 0
    while (found := _SEGMENT.search(content, place)) is not None and content[found.end() - 1] != _END:
        count += content[found.end() - 1] == _SCAN
        place = found.end() + int.from_bytes(content[found.end() : found.end() + 2])  # a segment may hold anything
    return count
