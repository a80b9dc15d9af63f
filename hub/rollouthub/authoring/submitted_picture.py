"""The picture that an agent submitted: a data URL in its answer, or a part of its last message."""

import base64
import binascii
import re

from rollouthub.messages import MOST_MEDIA_BYTES, Media, media_of
from rollouthub.score import Submission

_BEGIN, _MARK = "data:image/", ";base64,"
_LONGEST_TYPE = 32
_AFTER = re.compile(r"[\s\"'`()<>]", re.ASCII)


def submitted_picture(submission: Submission) -> bytes | None:
    """The content of the submitted picture: the last base64 data URL in the answer (or last message), else the last
    picture in the last message; None if there is neither.

    Raises:
        ValueError: the data URL holds no base64, or too many bytes.
    """
    start = place_of_picture(submission.final)
    if start >= 0:
        return _decoded(submission.final, start)
    last = next((message for message in reversed(submission.transcript) if message.role == "assistant"), None)
    if submission.answer is not None or last is None:
        return None
    contents = (part.read() for part in reversed(media_of([last])) if _is_picture(part))
    return next((content for content in contents if content is not None), None)


def place_of_picture(text: str) -> int:
    """Index of the last data URL of a picture in a text; -1 if there is none."""
    return text.rfind(_BEGIN)


def _is_picture(part: Media) -> bool:
    return part.mime_type.startswith("image/")


def _decoded(text: str, start: int) -> bytes:
    begin = text.find(_MARK, start, start + len(_BEGIN) + _LONGEST_TYPE + len(_MARK)) + len(_MARK)
    if begin < len(_MARK):
        raise ValueError("a data URL of a picture is no base64: write data:image/png;base64,...")
    most = MOST_MEDIA_BYTES * 4 // 3
    window = text[begin : begin + most + 1]
    after = _AFTER.search(window)
    end = after.start() if after else len(window)
    if end > most:
        raise ValueError(f"a picture has up to {MOST_MEDIA_BYTES:,} bytes")
    try:
        return base64.b64decode(window[:end], validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the data URL of a picture holds no base64") from None
