"""Memory of this process."""

import os
from pathlib import Path


def resident_bytes() -> int:
    """Resident memory in bytes (Linux only; 0 elsewhere)."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0
