"""Starts the processes of one sandbox and makes sure that all of them end."""

import logging
import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import to_thread

from rollouthub.processes import descendants
from rollouthub.store.folders import remove_folder
from rollouthub_sandboxes.process.process_isolation import Cell
from rollouthub_sandboxes.supervisor.stream import SocketStream

logger = logging.getLogger(__name__)

END_SECONDS = 5.0
_WORDS_BYTES = 4096


class StartedCell:
    """The process of a started sandbox, and the stream to its supervisor."""

    def __init__(self, cell: Cell, folder: Path) -> None:
        """Start the sandbox's process.

        Raises:
            OSError: it could not be started.
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
        """The pid of the started process: the supervisor, or the bubblewrap that contains it."""
        return self._process.pid

    def last_words(self) -> str:
        """What the process wrote to standard error, such as why bubblewrap could not start."""
        return os.pread(self._words, _WORDS_BYTES, 0).decode(errors="replace").strip()

    async def end(self) -> None:
        """After the stream was closed: wait for the processes to end, kill them if need be, and remove the folder.

        Never raises; takes ten seconds and the removal at most.
        """
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
        """Kill the process and its descendants: a supervisor with another user does not die with bubblewrap."""
        for pid in descendants(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()

    def _clean(self) -> None:
        if self._cell.uid is not None and self._cell.command[0] != "bwrap":
            self._kill_user(self._cell.uid)
        remove_folder(self._folder)

    def _kill_user(self, uid: int) -> None:
        """Kill all processes of a sandbox's own user at once, so that none can escape by forking."""
        become = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run((*become, "/bin/sh", "-c", "kill -9 -1"), timeout=END_SECONDS, check=False, cwd="/", env={})
