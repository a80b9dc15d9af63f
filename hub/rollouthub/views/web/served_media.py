"""The content types of pictures, sounds and files that pages show or offer: by their own first bytes, never by what
a record says.
"""

from collections.abc import Mapping

from rollouthub.store.media import read_media
from rollouthub.store.reader import RunReader
from rollouthub.store.sql_schema import MEDIA
from rollouthub.views.cards.embedded_pictures import picture_type

MOST_BYTES = 64 * 2**20
"""Largest file that is served."""
_SOUNDS = {b"OggS": "audio/ogg", b"fLaC": "audio/flac", b"ID3": "audio/mpeg"}


def media_type(content: bytes) -> str | None:
    """The type of a picture or sound that a browser may show; None for any other content."""
    if (found := picture_type(content)) is not None:
        return found
    if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
        return "audio/wav"
    return next((kind for beginning, kind in _SOUNDS.items() if content.startswith(beginning)), None)


def served_media(reader: RunReader, digest: str) -> tuple[bytes, str, Mapping[str, str]]:
    """The bytes of a digest, their content type, and further headers; what is no picture or sound is a download.

    Raises:
        UnknownNameError: the run has no such file.
        RunDirectoryError: it is a link, too large or altered.
    """
    content = read_media(reader.directory / MEDIA, digest, MOST_BYTES)
    kind = media_type(content)
    if kind is None:
        return content, "application/octet-stream", {"Content-Disposition": "attachment"}
    # What a digest names never changes.
    return content, kind, {"Cache-Control": "private, max-age=3600, immutable"}
