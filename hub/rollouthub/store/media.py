"""Pictures, sounds and artifacts of a run: one file each in `media/`, named by its digest."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_PARTIAL = ".partial"


def media_name(digest: str) -> str:
    """The file name of a digest.

    Raises:
        ValueError: it is no digest.
    """
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise ValueError(f"{digest!r} is no digest: expected 'sha256:' and 64 hex digits")
    return match[1]


def keep_media(folder: Path, media: Mapping[str, bytes]) -> None:
    """Write what is not there yet; each file appears whole."""
    for digest, content in media.items():
        path = folder / media_name(digest)
        if path.exists():
            continue
        folder.mkdir(exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}{_PARTIAL}")
        partial.write_bytes(content)
        partial.replace(path)


def clear_partial_media(folder: Path) -> None:
    """Remove what a killed writer left half written."""
    for partial in folder.glob(f"*{_PARTIAL}"):
        partial.unlink(missing_ok=True)
