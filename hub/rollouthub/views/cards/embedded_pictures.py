"""Pictures embedded in a page: limited in number and size, and checked to be of the type they claim."""

from dataclasses import dataclass, field
from pathlib import Path

from rollouthub.errors import RunDirectoryError, UnknownNameError
from rollouthub.messages import data_url
from rollouthub.store.media import media_size, read_media
from rollouthub.store.sql_schema import MEDIA
from rollouthub.text import plain_name
from rollouthub.views.cards.blocks import MediaBlock

PICTURE_BYTES, PICTURES_BYTES = 300_000, 2_000_000
"""Most bytes of one picture, and of all pictures of a page."""
PICTURE_SIDE = 8192
_BEGINNINGS: dict[str, tuple[bytes, ...]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


@dataclass
class EmbeddedPictures:
    """The bytes left for the pictures of a page."""

    directory: Path
    left: int = field(default=PICTURES_BYTES)

    def show(self, mime_type: str, digest: str) -> MediaBlock:
        """The picture, or the reason why it is not shown."""
        found = self._content(mime_type, digest)
        if isinstance(found, str):
            return MediaBlock(plain_name(mime_type), plain_name(digest), why=found)
        return MediaBlock(mime_type, digest, data_url(found, mime_type))

    def _content(self, mime_type: str, digest: str) -> bytes | str:
        if mime_type not in _BEGINNINGS:
            return f"{plain_name(mime_type)}: not a picture that is shown here"
        try:
            size = media_size(self.directory / MEDIA, digest)
            if size > PICTURE_BYTES or size > self.left:
                return f"{mime_type} of {size:,} bytes, too large to be shown here"
            content = read_media(self.directory / MEDIA, digest, PICTURE_BYTES)
        except UnknownNameError:
            return f"{mime_type} that is not in the run's folder"
        except RunDirectoryError as error:
            return f"{mime_type} that is not shown: {error}"
        if not _is_picture(mime_type, content):
            return f"said to be {mime_type}, but is not"
        self.left -= len(content)
        return content


def picture_type(content: bytes) -> str | None:
    """The type of a picture by its first bytes; None for anything else."""
    return next((mime_type for mime_type in _BEGINNINGS if _is_picture(mime_type, content)), None)


def _is_picture(mime_type: str, content: bytes) -> bool:
    if not content.startswith(_BEGINNINGS[mime_type]):
        return False
    if mime_type == "image/webp":
        return content[8:12] == b"WEBP"
    if mime_type == "image/png":
        sides = (int.from_bytes(content[16:20]), int.from_bytes(content[20:24]))
    elif mime_type == "image/gif":
        sides = (int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little"))
    else:
        return True
    return all(0 < side <= PICTURE_SIDE for side in sides)
