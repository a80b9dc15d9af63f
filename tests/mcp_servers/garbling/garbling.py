"""Garbage on every line that a process has to somebody else."""

import os
import stat
from contextlib import suppress
from pathlib import Path


def garble() -> None:
    """Write what is no answer to each socket of this process."""
    for number in [path.name for path in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(number)).st_mode):
                os.write(int(number), b"what?\n")
