"""Downloads pinned data files: resumed where it was cut off, and kept only with the declared digest."""

import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from filelock import FileLock

from rollouthub.authoring.rows.pinned_data import PinnedFile, digest_of
from rollouthub.errors import ConfigError, said

MOST_BYTES = 1 << 30
"""Largest file that is fetched where its size is not declared."""
FETCH_SECONDS = 600.0
"""Longest time for one file; a file that takes longer is continued by the next attempt."""
_STILL_SECONDS = 30.0
_CHUNK = 1 << 18

Seen = Callable[[int, int | None], None]
"""A callback that gets the number of bytes that are there, and of the whole file, None where it is unknown."""


def fetch_file(file: PinnedFile, *, url: str | None = None, seen: Seen = lambda _have, _of: None) -> Path:
    """Fetch a file unless it is on this machine, and return its path. Blocks.

    `url` is another address of the same bytes, such as a mirror's. What a broken download has brought is kept, and the
    next attempt goes on from there.

    Raises:
        ConfigError: it cannot be fetched, or is not what was declared.
    """
    path, url = file.path, url or file.url
    lock = path.parent.with_name("locks") / f"{file.sha256}.lock"
    for folder in (path.parent, lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        if file.is_here:
            return path
        partial = path.with_name(f".{path.name}.partial")
        try:
            whole = _continue(file, url, partial, seen)
        except (OSError, ValueError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()  # it holds the answer
            raise ConfigError(f"{url} could not be fetched: {said(error)}{_kept(partial)}") from error
        found = digest_of(partial)
        if found != file.sha256:
            if not whole:
                raise ConfigError(f"{url} could not be fetched: the answer was cut off{_kept(partial)}")
            partial.unlink()
            raise ConfigError(f"what {url} gives has the digest {found}, not the declared sha256 = {file.sha256!r}")
        partial.replace(path)
    return path


def _continue(file: PinnedFile, url: str, partial: Path, seen: Seen) -> bool:
    """Append what is missing to a partial file; returns whether the server's answer came to its end."""
    have = partial.stat().st_size if partial.exists() else 0
    if have and have >= (file.bytes or MOST_BYTES):
        partial.unlink()
        have = 0
    headers = {"User-Agent": "rollouthub", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        # Only http and https pass the model, and the library follows no redirect to anything else but ftp.
        answer: Any = urlopen(Request(url, headers=headers), timeout=_STILL_SECONDS)
    except HTTPError as error:
        if error.code != 416:  # nothing follows what is there
            raise
        error.close()
        partial.unlink()
        return _continue(file, url, partial, seen)
    with answer:
        if have and not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-"):
            have = 0  # the server begins anew
        rest = answer.headers.get("Content-Length")
        total = file.bytes if rest is None else have + int(rest)
        with partial.open("ab" if have else "wb") as target:
            have = _copy(answer, target, have, total, file, seen)
    return total is None or have >= total


def _copy(answer: Any, target: BinaryIO, have: int, total: int | None, file: PinnedFile, seen: Seen) -> int:
    most, end = MOST_BYTES if file.bytes is None else file.bytes, time.monotonic() + FETCH_SECONDS
    seen(have, total)
    while chunk := answer.read1(_CHUNK):  # what has come: else bytes that trickle in outlast every deadline
        have += len(chunk)
        if have > most:
            target.truncate(0)
            raise ValueError(f"it has more than {most:,} bytes")
        if time.monotonic() > end:
            raise TimeoutError(f"it takes over {FETCH_SECONDS:g} s")
        target.write(chunk)
        seen(have, total)
    return have


def _kept(partial: Path) -> str:
    """What to do next, where something of the file is here."""
    have = partial.stat().st_size if partial.exists() else 0
    return f"; {have:,} bytes are kept, and the next attempt goes on from there" if have else ""
