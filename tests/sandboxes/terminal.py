"""A person's terminal, for commands that want one."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

SECONDS = 20.0


def type_into(command: Sequence[str], typed: str, seconds: float = SECONDS) -> str:
    """What a terminal shows that a command was given, once the command has ended."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
            os.close(theirs)
            os.write(ours, typed.encode())
            shown, until = b"", time.monotonic() + seconds
            with suppress(OSError):  # the other end is closed
                while select.select([ours], [], [], max(0.0, until - time.monotonic()))[0]:
                    shown += os.read(ours, 65536)
            process.kill()
        return shown.decode(errors="replace").replace("\r\n", "\n")
    finally:
        os.close(ours)
