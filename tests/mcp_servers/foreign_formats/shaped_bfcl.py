"""A driver of BFCL's shape: functions that note what they are given, hang, fail or kill; a check by equality."""

import os
import signal
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from rollouthub_servers.foreign.serving import Session, serve


class World:
    """One session's own."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def open(self, row: dict[str, Any]) -> None:
        """Nothing to make."""

    def call(self, name: str, given: dict[str, Any]) -> str:
        """Do what the function's name says."""
        while name == "hang":
            pass
        if name == "die":
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        if name == "garble":
            for number in [path.name for path in Path("/proc/self/fd").iterdir()]:
                with suppress(OSError):
                    if stat.S_ISSOCK(os.fstat(int(number)).st_mode):
                        os.write(int(number), b"what?\n")
        if name == "fail":
            raise ValueError("a lemma is missing")
        self.notes.append({name: given})
        return f"noted: {len(self.notes)}"

    def check(self, row: dict[str, Any], result: Any) -> dict[str, Any]:
        """Whether the calls are the answer's."""
        is_right = result == row["truth"]
        return {"valid": is_right, "why": None if is_right else f"not {row['truth']}", "error_type": None}


def open_session() -> Session:
    """A session's functions."""
    world = World()
    return {"open": world.open, "call": world.call, "check": world.check}


if __name__ == "__main__":
    serve(open_session, forked_seconds=1.0)
