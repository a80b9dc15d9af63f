"""Reads one foreign source into the cache, as a process of its own: `python -m … PATH`, errors on stderr."""

import sys
from pathlib import Path

from rollouthub.analysis.foreign_runs.open_foreign import read_whole
from rollouthub.errors import HubError


def main() -> int:
    """Read the source that the first argument names; returns the exit code."""
    try:
        read_whole(Path(sys.argv[1]))
    except HubError as error:
        sys.stderr.write(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
