"""Pictures of a request, decoded within bounds: bytes, pixels and formats; files of one folder alone."""

import base64
import binascii
import os
import re
import stat
from io import BytesIO
from pathlib import Path
from typing import Any

from rollouthub.errors import UsageError
from rollouthub.trainers.reward_server.reward_wire import ImageToScore

MAX_PICTURE_BYTES = 32 * 2**20
MAX_PIXELS = 2**25
"""Of one picture: 8192 × 4096."""
MAX_BATCH_PIXELS = 2**27
"""Of all pictures of a request, which are in memory at once: half a GiB."""
MAX_SCANS = 32
"""Times that a JPEG may go over its pixels; those of cameras and libraries do up to a dozen times. Each takes a few
bytes and as long as the whole picture, so that a small file could keep a processor for hours."""
_FORMATS = ("PNG", "JPEG", "WEBP")
_SEGMENT = re.compile(rb"\xff[\xc0-\xcf\xd9-\xfe]")
"""What a segment of a JPEG begins with, or its end: ITU-T T.81, B.1.1.3; not restarts, which are within a scan."""
_END, _SCAN = 0xD9, 0xDA


class BadPicture(UsageError):
    """A picture that cannot be scored."""


class PictureReader:
    """Reads the pictures of one request."""

    def __init__(self, folder: Path | None) -> None:
        """`folder` is where paths are looked up; None takes none."""
        self._folder = None if folder is None else folder.resolve()
        self._left = MAX_BATCH_PIXELS

    def read(self, given: ImageToScore) -> Any:
        """The picture, decoded, as RGB.

        Raises:
            BadPicture: says why it cannot be had.
        """
        if (given.base64 is None) == (given.path is None):
            raise BadPicture("give a picture's bytes as base64, or its path: one of them")
        return self._decoded(_from_base64(given.base64) if given.base64 is not None else self._file(given.path or ""))

    def _file(self, path: str) -> bytes:
        if self._folder is None:
            raise BadPicture("this server was given no folder of pictures (--images DIR); send their bytes")
        # One answer whatever is or is not there: a path out of the folder says nothing of what it leads to.
        refused = BadPicture(f"there is no picture {path[:200]!r} in the server's folder")
        try:
            place = (self._folder / path).resolve(strict=True)
            if not place.is_relative_to(self._folder):
                raise refused
            # Resolved by now, so that a last link can only have been put there since; and nothing that blocks.
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError, RuntimeError):
            raise refused from None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise refused
            if found.st_size > MAX_PICTURE_BYTES:
                raise BadPicture(f"{path[:200]!r} is larger than {MAX_PICTURE_BYTES >> 20} MiB")
            with os.fdopen(os.dup(descriptor), "rb") as file:
                return file.read(MAX_PICTURE_BYTES)
        finally:
            os.close(descriptor)

    def _decoded(self, content: bytes) -> Any:
        from PIL import Image

        try:
            picture = Image.open(BytesIO(content), formats=_FORMATS)
            width, height = picture.size
            if width * height > MAX_PIXELS:
                raise BadPicture(f"a picture of {width} × {height} pixels is larger than the {MAX_PIXELS} there may be")
            if width * height > self._left:
                raise BadPicture(f"the request's pictures have more than {MAX_BATCH_PIXELS} pixels; send fewer at once")
            self._left -= width * height
            if picture.format in ("JPEG", "MPO") and _scans(content) > MAX_SCANS:
                raise BadPicture(f"a JPEG of more than {MAX_SCANS} scans takes too long to read")
            return picture.convert("RGB")
        except BadPicture:
            raise
        except Exception as error:  # a decoder meets anything in what it is given
            raise BadPicture(f"it is no picture ({', '.join(_FORMATS)}): {type(error).__name__}") from error


def _scans(content: bytes) -> int:
    """How often a JPEG goes over its pixels."""
    count = place = 0
    while (found := _SEGMENT.search(content, place)) is not None and content[found.end() - 1] != _END:
        count += content[found.end() - 1] == _SCAN
        place = found.end() + int.from_bytes(content[found.end() : found.end() + 2])  # a segment may hold anything
    return count


def _from_base64(text: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadPicture(f"its base64 is broken: {error}") from error
    if len(content) > MAX_PICTURE_BYTES:
        raise BadPicture(f"it is larger than {MAX_PICTURE_BYTES >> 20} MiB")
    return content
