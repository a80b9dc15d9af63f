"""Pictures of a run's folder: opened only when asked for, only what they say to be, and never larger than is safe."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rollouthub.store.media import media_name
from rollouthub.store.sql_schema import MEDIA
from rollouthub_tui.widgets.rollout.document import Medium
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_BYTES = 32 * 2**20
MOST_PIXELS = 40_000_000
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
_KEPT_SIDE = 1600
"""Pixels; a larger picture is made smaller before it is kept."""


def load_picture(directory: Path, medium: Medium) -> "Image | str":
    """The picture, or why it cannot be shown, on one line. Blocking."""
    try:
        path = directory / MEDIA / media_name(medium.digest)
    except ValueError:
        return f"cannot be shown: {drawn_line(medium.digest, 40)!r} names no file of the run"
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            return f"cannot be shown: {size:,} bytes are too many for a picture here"
        with path.open("rb") as file:
            beginning = file.read(32)
    except OSError as error:
        return f"cannot be shown: its file is missing from the run's folder ({error.strerror})"
    return _decoded(path, medium.mime_type, beginning)


def _decoded(path: Path, mime_type: str, beginning: bytes) -> "Image | str":
    # Loaded here: half a tenth of a second that nobody spends who looks at no picture.
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a picture that grows beyond all measure, a warning is what comes first
            with Image.open(path, formats=_FORMATS) as opened:
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
        kind = "text" if beginning.isascii() and beginning else "something else"
        return f"cannot be shown: it claims to be {drawn_line(mime_type, 40)}, but is no picture ({kind})"
    except Exception as error:  # whatever a decoder makes of bytes that an agent chose
        return f"cannot be shown: it is broken ({drawn_line(str(error), 100) or type(error).__name__})"
