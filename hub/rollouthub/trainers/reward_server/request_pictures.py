"""Decodes the pictures of a request within size limits; paths are read only within one folder."""

import base64
import binascii
import os
import stat
from pathlib import Path
from typing import Any

from rollouthub.authoring.decoded_picture import MAX_BATCH_PIXELS, MAX_PICTURE_BYTES, BadPicture, decoded_picture
from rollouthub.trainers.reward_server.reward_wire import ImageToScore


class PictureReader:
    """Reads the pictures of one request."""

    def __init__(self, folder: Path | None) -> None:
        """`folder` is where paths are looked up; None refuses paths."""
        self._folder = None if folder is None else folder.resolve()
        self._left = MAX_BATCH_PIXELS

    def read(self, given: ImageToScore) -> Any:
        """Decode one picture to a Pillow image in RGB.

        Raises:
            BadPicture: the picture cannot be read or decoded; the message says why.
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
        picture = decoded_picture(content, self._left)
        self._left -= picture.width * picture.height
        return picture


def _from_base64(text: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadPicture(f"its base64 is broken: {error}") from error
    return content
