"""Starts the processes of one sandbox and makes sure that all of them end."""

import logging
import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import to_thread

from rollouthub.processes import descendants
from rollouthub_sandboxes.process.process_isolation import Cell
from rollouthub_sandboxes.supervisor.stream import SocketStream

logger = logging.getLogger(__name__)

END_SECONDS = 5.0
_WORDS_BYTES = 4096


class StartedCell:
    """A supervisor's process, and the stream to it."""

    def __init__(self, cell: Cell, folder: Path) -> None:
        """Start it.

        Raises:
            OSError: it could not be.
        """
        self._cell, self._folder = cell, folder
        ours, theirs = socket.socketpair()
        self._words = os.memfd_create("said")
        try:
            with theirs:
                # From this thread, the event loop's, and not from a worker's: where a thread ends that started
                # processes which are to die with their parent, the kernel kills them.
                self._process = subprocess.Popen(
                    cell.command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._words,
                    cwd=cell.cwd,
                    env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            os.close(self._words)
            raise
        self.stream = SocketStream(ours)

    @property
    def pid(self) -> int:
        """Of the process that was started: the supervisor, or what put up its walls."""
        return self._process.pid

    def last_words(self) -> str:
        """What was said while it started, such as why bubblewrap could not."""
        return os.pread(self._words, _WORDS_BYTES, 0).decode(errors="replace").strip()

    async def end(self) -> None:
        """See its processes gone and its folder removed; its stream is closed before. Never raises, always bounded."""
        with anyio.CancelScope(shield=True):
            pid = self._process.pid
            pidfd = os.pidfd_open(pid)
            try:
                with anyio.move_on_after(END_SECONDS):
                    await anyio.wait_readable(pidfd)
                if self._process.poll() is None:
                    logger.warning("the supervisor of a sandbox (process %d) had to be killed", pid)
                    self._kill()
                    with anyio.move_on_after(END_SECONDS):
                        await anyio.wait_readable(pidfd)
                    self._process.poll()
            finally:
                os.close(pidfd)
                os.close(self._words)
            await to_thread.run_sync(self._clean)

    def _kill(self) -> None:
        """Kill it, and what it started: a supervisor whose user is another does not die with bubblewrap."""
        for pid in descendants(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()

    def _clean(self) -> None:
        if self._cell.uid is not None and self._cell.command[0] != "bwrap":
            self._kill_user(self._cell.uid)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill_user(self, uid: int) -> None:
        """Kill what is left of a sandbox's own user, at once, so that nothing can fork out of its way."""
        become = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run((*become, "/bin/sh", "-c", "kill -9 -1"), timeout=END_SECONDS, check=False, cwd="/", env={})
