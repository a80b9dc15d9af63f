"""Opens somebody else's run as a run directory of the hub's: read once into the cache, at once the next time."""

import os
import subprocess
from pathlib import Path

from rollouthub.analysis.foreign_runs.read_source import stamp_of
from rollouthub.analysis.foreign_runs.reading import Progress, read_into
from rollouthub.analysis.foreign_runs.run_cache import CachedRun, own_cache_folder, trim
from rollouthub.analysis.foreign_runs.run_format import format_of_source
from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub.processes import PYTHON
from rollouthub.text import one_line


def no_progress(rollouts: int, position: int, length: int) -> None:
    """A `Progress` that says nothing."""


def read_whole(path: Path, progress: Progress = no_progress) -> Path:
    """Return the run directory of a foreign source, read to its end. Blocks; must not be called within an event loop.

    Raises:
        ConfigError: no format recognises it, or it cannot be read.
        StoreError: the run cannot be written, or other users may write to the cache.
    """
    run_format, stamp = format_of_source(path), stamp_of(path)
    root = own_cache_folder(os.environ)
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
        StoreError: other users may write to the cache.
    """
    run_format, stamp = format_of_source(path), stamp_of(path)
    cached = CachedRun.of(stamp, own_cache_folder(os.environ), run_format.name)
    if cached.is_done:
        cached.use()
    elif not cached.is_begun:
        command = [*PYTHON, "-m", "rollouthub.analysis.foreign_runs.background", str(stamp.path), str(cached.entry)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ConfigError(
                one_line(done.stderr, 1000) or f"the reader of {str(path)!r} ended with {done.returncode}"
            )
    return cached.directory
