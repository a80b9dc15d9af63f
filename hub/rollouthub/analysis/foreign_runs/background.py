"""Reads one foreign source into the cache, as a process of its own that goes on when its caller has ended.

`python -m … PATH ENTRY` ends as soon as the run in that cache entry can be watched, or with the reason on stderr.
"""

import os
import sys
import time
from pathlib import Path

from rollouthub.analysis.foreign_runs.open_foreign import read_whole
from rollouthub.analysis.foreign_runs.run_cache import CachedRun
from rollouthub.errors import HubError

_POLL_SECONDS = 0.02


def main() -> int:
    """Start the reading, and wait until it has begun; returns the exit code."""
    path, entry = Path(sys.argv[1]), Path(sys.argv[2])
    problem, saying = os.pipe()
    reader = os.fork()
    if reader == 0:
        os.close(problem)
        os.setsid()
        os._exit(_read(path, saying))
    os.close(saying)
    cached = CachedRun.at(entry, path)
    while os.waitpid(reader, os.WNOHANG) == (0, 0):
        if cached.is_begun:
            return 0
        time.sleep(_POLL_SECONDS)
    with os.fdopen(problem, "rb") as said:
        reason = said.read()
    sys.stderr.buffer.write(reason)
    return 2 if reason else 0


def _read(path: Path, saying: int) -> int:
    """Read the source in the forked process, which holds nothing of its caller's open."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    try:
        read_whole(path)
    except HubError as error:
        os.write(saying, str(error).encode(errors="replace")[:4000])
        return 2
    except Exception as error:
        os.write(saying, f"the reader broke: {error!r}".encode(errors="replace")[:4000])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
