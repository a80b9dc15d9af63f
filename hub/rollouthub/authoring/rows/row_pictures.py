"""Pictures of a row: bytes or base64 in the row, or files below the data set's folder."""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from rollouthub.authoring.rows.row import Row
from rollouthub.messages import MOST_MEDIA_BYTES, Media, Message, Text, media_type

COLUMNS = ("images", "image")
"""Columns that may hold a row's pictures, if none is named."""
FOLDER_COLUMNS = ("file_name", "file_names", "image_file_name")
"""Further such columns in the `metadata` file of a folder of pictures."""
MARK = "<image>"
"""The place of a picture in a text."""
_MOST_PICTURES = 64
_SHORTEST_BASE64 = 64


def pictures_of(row: Row, column: str | None) -> tuple[Media, ...]:
    """The row's pictures; empty if there is no such column, or it is null.

    Raises:
        DataError: a picture is invalid, missing, or outside the data set's folder.
    """
    if column is None:
        names = (*COLUMNS, *FOLDER_COLUMNS) if row.is_of_picture_folder else COLUMNS
        column = next((name for name in names if row.values.get(name) is not None), None)
        if column is None:
            return ()
    value = row.column(column, "images")
    values = cast(list[Any], value) if isinstance(value, list) else [] if value is None else [value]
    if len(values) > _MOST_PICTURES:
        raise row.error(f"column {column!r} holds {len(values):,} pictures; a task shows at most {_MOST_PICTURES}")
    try:
        return tuple(_picture(row, each) for each in values)
    except (ValueError, OSError) as error:
        problem = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise row.error(f"column {column!r}: {problem}") from None


def illustrated(row: Row, text: str, pictures: Sequence[Media]) -> str | tuple[Message, ...]:
    """A prompt of a text and its pictures: at each `<image>`, or before the text if it has no `<image>`.

    Raises:
        DataError: the number of `<image>` is not the number of pictures.
    """
    if not pictures:
        return text
    words = text.split(MARK)
    if len(words) == 1:
        return (Message(role="user", content=(*pictures, Text(text=text))),)
    if len(words) - 1 != len(pictures):
        raise row.error(f"the text says {MARK} {len(words) - 1} times, and the row has {len(pictures)} pictures")
    parts: list[Text | Media] = []
    for said, shown in zip(words, (*pictures, None), strict=True):
        if said.strip():
            parts.append(Text(text=said.strip()))
        if shown is not None:
            parts.append(shown)
    return (Message(role="user", content=tuple(parts)),)


def _picture(row: Row, value: Any) -> Media:
    if isinstance(value, dict):  # as Hugging Face keeps pictures in Parquet
        known = cast(dict[str, Any], value)
        value = known.get("bytes") or known.get("path")
    if isinstance(value, bytes):
        return Media.of(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r:.60} is no picture: give a path, bytes, base64 or a data URL")
    if value.startswith("data:"):
        return _of_url(value)
    # Of what is a path and base64 at once, the file is meant.
    path = _inside(row, value)
    if path is not None:
        return Media.of(path)
    if len(value) >= _SHORTEST_BASE64 and (content := _decoded(value)) is not None and media_type(content):
        return Media.of(content)
    if row.folder is None:
        raise ValueError(f"{value!r:.80}: this data set has no folder, so its pictures are given as bytes")
    raise ValueError(f"there is no picture {value!r:.80} below {str(row.folder)!r}")


def _inside(row: Row, name: str) -> Path | None:
    """The file of that name in the row's folder; None if there is none.

    Raises:
        ValueError: it lies outside of the folder.
    """
    if row.folder is None or "\0" in name or len(name) > 4096:
        return None
    folder = row.folder.resolve()
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            raise ValueError(f"the picture {name!r:.80} lies outside of {str(row.folder)!r}, and is not read")
        return path if path.is_file() else None
    except OSError:  # base64 is too long for a name
        return None


def _of_url(url: str) -> Media:
    head, comma, encoded = url.partition(",")
    content = _decoded(encoded) if comma and head.endswith(";base64") else None
    if content is None:
        raise ValueError(f"{url[:60]!r} is no base64 data URL")
    return Media.of(content, head.removeprefix("data:").partition(";")[0] or None)


def _decoded(text: str) -> bytes | None:
    if len(text) > MOST_MEDIA_BYTES * 4 // 3 + 4:
        raise ValueError(f"base64 of {len(text):,} letters; a picture has at most {MOST_MEDIA_BYTES:,} bytes")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
