"""What a server behind a wall leaves behind when the hub is killed: nothing, whatever it ignores and forks."""

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from rollouthub.hosting.wall.wall import Wall
from tests.hosting.wall.evil import ROOT

ENDED_SECONDS = 60.0


def processes_of(folder: Path) -> list[int]:
    """Descriptors of this machine's processes that were started from a folder."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"{folder}/data/".encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(os.pidfd_open(int(entry.parent.name)))
    return found


def test_a_hub_that_is_killed_leaves_no_process_behind_the_wall(wall: Wall, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "tests.hosting.wall.killed_hub", wall.kind, str(tmp_path))
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as hub:
        try:
            assert hub.stdout is not None
            assert hub.stdout.readline() == "up\n"
            left = processes_of(tmp_path)
            assert len(left) >= 3, "the guard, the server and what it forked"
        finally:
            hub.kill()
    end = time.monotonic() + ENDED_SECONDS
    try:
        for process in left:
            assert select.select([process], [], [], max(0.0, end - time.monotonic()))[0], "one lives on"
    finally:
        for process in left:
            os.close(process)
    assert processes_of(tmp_path) == []
