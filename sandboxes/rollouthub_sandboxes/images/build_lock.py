"""A lock for each image, held across tasks and processes while it is built, and when an image was last used."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from filelock import FileLock, Timeout

PAUSE_SECONDS = 0.1


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The folder in which all hubs of this machine share their records about images."""
    given = os.environ if environment is None else environment
    cache = given.get("XDG_CACHE_HOME") or Path(given.get("HOME") or "~").expanduser() / ".cache"
    return Path(cache) / "rollouthub" / "images"


@asynccontextmanager
async def image_lock(cache: Path, key: str) -> AsyncGenerator[None]:
    """Hold the lock of one image, which one task of one process has at a time; it is released if the process dies.

    Waits without a limit while another holds the lock: put a deadline around the call.
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
    """Record that an image is used now, in a file, since the labels of an image cannot change."""
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"{key}.used").touch()


def last_use(cache: Path, key: str) -> float | None:
    """When an image was last used, in seconds since 1970; None without a record on this machine."""
    try:
        return (cache / f"{key}.used").stat().st_mtime
    except OSError:
        return None


def forget_use(cache: Path, key: str) -> None:
    """Delete the record of an image's last use."""
    (cache / f"{key}.used").unlink(missing_ok=True)
