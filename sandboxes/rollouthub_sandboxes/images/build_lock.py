"""One builder at a time for an image, across tasks and processes; and when an image was last asked for."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from filelock import FileLock, Timeout

PAUSE_SECONDS = 0.1


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where a machine's hubs keep what they share about images."""
    given = os.environ if environment is None else environment
    cache = given.get("XDG_CACHE_HOME") or Path(given.get("HOME") or "~").expanduser() / ".cache"
    return Path(cache) / "rollouthub" / "images"


@asynccontextmanager
async def image_lock(cache: Path, key: str) -> AsyncGenerator[None]:
    """Held by one task of one process at a time; a process that dies lets go of it.

    It waits as long as the holder works: bound it from outside.
    """
    lock = _lock(cache, key)
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except Timeout:
            await anyio.sleep(PAUSE_SECONDS)
    try:
        yield
    finally:
        lock.release()


def _lock(cache: Path, key: str) -> FileLock:
    cache.mkdir(parents=True, exist_ok=True)
    return FileLock(cache / f"{key}.lock", thread_local=False)


def note_use(cache: Path, key: str) -> None:
    """Remember that an image was asked for now; labels of an image cannot change."""
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"{key}.used").touch()


def last_use(cache: Path, key: str) -> float | None:
    """When an image was last asked for, in seconds since 1970; None where nobody here knows."""
    try:
        return (cache / f"{key}.used").stat().st_mtime
    except OSError:
        return None


def forget_use(cache: Path, key: str) -> None:
    """Drop what is kept about an image that is gone."""
    (cache / f"{key}.used").unlink(missing_ok=True)
