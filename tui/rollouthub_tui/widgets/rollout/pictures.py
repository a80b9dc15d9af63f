"""Loads pictures from a run's folder: only on request, only in the declared format, and within safe sizes."""

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rollouthub.errors import RunDirectoryError, UnknownNameError
from rollouthub.store.media import media_name, media_size, read_media
from rollouthub.store.sql_schema import MEDIA
from rollouthub_tui.widgets.rollout.document import Medium
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_BYTES = 32 * 2**20
MOST_PIXELS = 40_000_000
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
_KEPT_SIDE = 1600
"""Longest side in pixels; a larger picture is scaled down."""


def load_picture(directory: Path, medium: Medium) -> "Image | str":
    """The picture, or in one line why it cannot be shown. Blocking."""
    try:
        media_name(medium.digest)
    except ValueError:
        return f"cannot be shown: {drawn_line(medium.digest, 40)!r} names no file of the run"
    try:
        size = media_size(directory / MEDIA, medium.digest)
        if size > MOST_BYTES:
            return f"cannot be shown: {size:,} bytes are too many for a picture here"
        content = read_media(directory / MEDIA, medium.digest, MOST_BYTES)
    except UnknownNameError:
        return "cannot be shown: its file is missing from the run's folder"
    except RunDirectoryError as error:
        return f"cannot be shown: {error}"
    return _decoded(content, medium.mime_type)


def _decoded(content: bytes, mime_type: str) -> "Image | str":
    # Loaded here: half a tenth of a second that nobody spends who looks at no picture.
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a picture that grows beyond all measure, a warning is what comes first
            with Image.open(io.BytesIO(content), formats=_FORMATS) as opened:
                real = Image.MIME.get(opened.format or "", "")
                width, height = opened.size
                if width * height > MOST_PIXELS:
                    return f"cannot be shown: {width:,} × {height:,} pixels are too many"
                if real != mime_type.partition(";")[0].strip().lower():
                    claim = drawn_line(mime_type, 40)
                    return f"cannot be shown: it claims to be {claim}, but is {real or 'something else'}"
                opened.thumbnail((_KEPT_SIDE, _KEPT_SIDE))
                return opened.convert("RGB")
    except Image.UnidentifiedImageError:
        kind = "text" if content[:32].isascii() else "something else"
        return f"cannot be shown: it claims to be {drawn_line(mime_type, 40)}, but is no picture ({kind})"
    except Exception as error:  # whatever a decoder makes of bytes that an agent chose
        return f"cannot be shown: it is broken ({drawn_line(str(error), 100) or type(error).__name__})"
