"""`ForeignProcess`: one process of a foreign program, from its start to its end."""

import secrets
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from rollouthub.errors import TaskError
from rollouthub.processes import kill_group
from rollouthub.text import plain
from rollouthub_servers.foreign.program import ForeignProgram, last_words, open_log, socket_of
from rollouthub_servers.mcp_server.scratch import make_scratch, remove

_POLL_SECONDS = 0.01
_END_SECONDS = 10.0
_SHOWN = 1_500
_SIGNALLED = 192


class ForeignProcess:
    """A running driver process. Create it in a worker thread: the constructor blocks until the driver listens."""

    def __init__(self, program: ForeignProgram) -> None:
        """Start the driver and wait until it listens.

        Raises:
            TaskError: the driver ended instead of listening, or did not listen in time.
            ConfigError: the driver cannot be started on this machine.
        """
        self.program = program
        self._why: str | None = None
        self._words = ""
        self._log = open_log()
        self._ending, self._reading = threading.Lock(), threading.Lock()
        self._scratch = make_scratch(secrets.token_hex(12))
        self.socket: Path = socket_of(self._scratch)
        """Path of the socket that the driver listens on; only the hub can connect to it."""
        self.workdir: Path = self._scratch.workdir
        """Its own folder, the only one it shares with the hub."""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process, self.walls = program.start(self._scratch, self._log)
            self._await_socket(self._process)
        except BaseException:
            self.end("did not start")
            raise

    def _await_socket(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self.program.start_seconds
        while not _listens(self.socket):
            if process.poll() is not None:
                raise self.fault(f"ended with {_code(process.returncode)} instead of starting")
            if self._why is not None:
                raise self.fault("was ended while it started")
            if time.monotonic() > deadline:
                raise self.fault(f"did not start within {self.program.start_seconds:g} s")
            time.sleep(_POLL_SECONDS)

    @property
    def pid(self) -> int | None:
        """Process id of the guard process, the parent of all others; None where it was not started."""
        return None if self._process is None else self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs and can be asked."""
        return self._why is None and self._process is not None and self._process.poll() is None

    def fault(self, what: str, *, retryable: bool = True) -> TaskError:
        """Return an error that says what happened, with the end of the process's output."""
        words = self._read_words()
        tail = f"; what it wrote ends: {words}" if words else ""
        return TaskError(f"{self.program.name} {what}{tail}", retryable=retryable)

    def _read_words(self) -> str:
        with self._reading:  # or another thread closes the log meanwhile
            if not self._log.closed:
                self._words = plain(last_words(self._log))[-_SHOWN:]
            return self._words

    def gone(self) -> TaskError:
        """Return the error for a caller whose connection closed: it says how the process ended."""
        if self._why is not None:
            return self.fault(self._why)
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):  # its socket closes a moment before its guard has ended
            self._process.wait(timeout=1.0)
        code = self._process.returncode
        if code is None:
            return self.fault("closed the connection without an answer")
        return self.fault(f"ended with {_code(code)} in the middle of an episode; another one is started")

    def end(self, why: str) -> None:
        """End the process with everything it started, and remove its folder. Blocks; only the first call has an
        effect.
        """
        with self._ending:
            if self._why is not None:
                return
            self._why = why
        process = self._process
        if process is not None:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()  # its guard kills what is below, then ends
            try:
                process.wait(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                kill_group(process.pid)
                process.wait()
        self._read_words()
        with self._reading:
            self._log.close()
        remove(self._scratch.root)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _code(code: int) -> str:
    if code > _SIGNALLED:  # the exit code of a guard in a container whose command a signal ended
        code -= 256
    return f"signal {-code}" if code < 0 else f"signal {code - 128}" if code > 128 else f"exit code {code}"
