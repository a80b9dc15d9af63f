"""Opens somebody else's run as a run directory of the hub's: read once into the cache, at once the next time."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from filelock import Timeout

from rollouthub.analysis.foreign_runs.read_source import stamp_of
from rollouthub.analysis.foreign_runs.reading import Progress, read_into
from rollouthub.analysis.foreign_runs.run_cache import CachedRun, cache_folder, trim
from rollouthub.analysis.foreign_runs.run_format import format_of_source
from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub.processes import PYTHON
from rollouthub.text import one_line

_POLL_SECONDS = 0.05
_BEGIN_SECONDS = 60.0
"""Seconds within which a reader in the background must have begun its run."""


def no_progress(rollouts: int, position: int, length: int) -> None:
    """A `Progress` that says nothing."""


def read_whole(path: Path, progress: Progress = no_progress) -> Path:
    """Return the run directory of a foreign source, read to its end. Blocks; must not be called within an event loop.

    Raises:
        ConfigError: no format recognises it, or it cannot be read.
        StoreError: the run cannot be written.
    """
    run_format, stamp = format_of_source(path), stamp_of(path)
    root = cache_folder(os.environ)
    cached = CachedRun.of(stamp, root, run_format.name)
    if not cached.is_done:
        with cached.lock():  # another process may be reading it
            if not cached.is_done:
                cached.clear()
                if run_async(read_into, run_format, stamp.path, cached.directory, progress):
                    cached.set_done()
        trim(root, cached.folder)
    cached.use()
    return cached.directory


def read_and_follow(path: Path) -> Path:
    """Return the run directory of a foreign source as soon as it can be watched; the rest is read by a process in the
    background, which goes on if this one ends.

    Raises:
        ConfigError: no format recognises it, or it cannot be read.
    """
    run_format, stamp = format_of_source(path), stamp_of(path)
    cached = CachedRun.of(stamp, cache_folder(os.environ), run_format.name)
    if cached.is_done:
        cached.use()
        return cached.directory
    try:
        with cached.lock().acquire(timeout=0):
            pass
    except Timeout:
        return _when_begun(cached, lambda: None)
    command = [*PYTHON, "-m", "rollouthub.analysis.foreign_runs.background", str(stamp.path)]
    reader = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )

    def failure() -> str | None:
        if reader.poll() is None or reader.stderr is None:
            return None
        return reader.stderr.read().decode(errors="replace") or f"its reader ended with {reader.returncode}"

    try:
        return _when_begun(cached, failure)
    finally:
        if reader.poll() is not None and reader.stderr is not None:
            reader.stderr.close()


def _when_begun(cached: CachedRun, failure: Callable[[], str | None]) -> Path:
    begun = time.monotonic()
    while not (cached.is_begun or cached.is_done):
        problem = failure()
        if problem is not None and not cached.is_done:
            raise ConfigError(one_line(problem, 1000))
        if time.monotonic() - begun > _BEGIN_SECONDS:
            raise ConfigError(f"the reading of {cached.directory.name!r} did not begin in {_BEGIN_SECONDS:.0f} seconds")
        time.sleep(_POLL_SECONDS)
    return cached.directory
