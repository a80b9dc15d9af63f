"""A pseudo-terminal that a program is measured in: answers its queries, and records when output came.

Needs POSIX; the CPU time of another process can be read on Linux only.
"""

import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from types import TracebackType
from typing import Self

from rollouthub.telemetry.cpu import cpu_of

QUIET_SECONDS = 0.03
"""Seconds without output that end a burst; a burst is taken for one frame."""
_SECONDS_TO_END = 10.0
_ANSWERS = (
    (b"\x1b[c", b"\x1b[?62;22c"),
    (b"\x1b[6n", b"\x1b[1;1R"),
    (b"\x1b[16t", b"\x1b[6;20;10t"),
    (b"\x1b[?2026$p", b"\x1b[?2026;2$y"),
    (b"\x1b[?2048$p", b"\x1b[?2048;0$y"),
)
"""Terminal queries, and an ordinary terminal's answers: no graphics, cells of 10×20 pixels."""
_ESCAPES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")


@dataclass(frozen=True, slots=True)
class Burst:
    """Output without a pause in it."""

    began: float
    ended: float
    size: int
    """Bytes of output."""
    cpu: float
    """CPU seconds that the process had used since it began when the burst ended."""


class Terminal:
    """A program in a pseudo-terminal; it runs as long as the block."""

    def __init__(
        self, command: Sequence[str], folder: Path, environ: Mapping[str, str], size: tuple[int, int] = (200, 60)
    ) -> None:
        """`size` is in columns and lines."""
        self.bursts: list[Burst] = []
        self.output = bytearray()
        """All output of the program."""
        self._command, self._folder, self._size = list(command), folder, size
        self._environ = {
            **environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "COLUMNS": str(size[0]),
            "LINES": str(size[1]),
        }
        self._began: float | None = None
        self._ended = 0.0
        self._burst_size = 0
        self._cpu = self._burst_cpu = 0.0
        self._tail = b""

    def __enter__(self) -> Self:
        self._mine, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", self._size[1], self._size[0], 0, 0))
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            self._command,
            cwd=self._folder,
            env=self._environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            until = time.perf_counter() + _SECONDS_TO_END
            while self.process.poll() is None and time.perf_counter() < until:
                self.pump(0.05)
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        os.close(self._mine)

    @property
    def is_running(self) -> bool:
        """Whether the program is still running."""
        return self.process.poll() is None

    @property
    def cpu(self) -> float:
        """CPU seconds that the program has used."""
        with suppress(OSError):
            self._cpu = cpu_of(self.process.pid)
        return self._cpu

    def memory(self) -> int:
        """Peak memory of the program in bytes; 0 if it cannot be read."""
        with suppress(OSError):
            found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
            return int(found[1]) * 1024 if found else 0
        return 0

    def press(self, keys: str) -> float:
        """Type a key; returns the time."""
        at = time.perf_counter()
        os.write(self._mine, keys.encode())
        return at

    def pump(self, seconds: float) -> None:
        """Read output for a while."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            if not self._take(min(left, QUIET_SECONDS)):
                break

    def settle(self, most: float = 5.0) -> None:
        """Read output until it pauses."""
        until = time.perf_counter() + most
        while time.perf_counter() < until and self._take(QUIET_SECONDS):
            if self._began is None:
                return

    def painted_after(self, at: float, most: float = 5.0) -> float | None:
        """Time of the first output after `moment`; None if none comes in time."""
        until = time.perf_counter() + most
        size = len(self.output)
        while time.perf_counter() < until and self._take(QUIET_SECONDS):
            if len(self.output) > size:
                return self._first_after(at)
        return None

    def _first_after(self, at: float) -> float:
        return self._began if self._began is not None and self._began >= at else self._ended

    def wait_for(self, pattern: str, most: float, start: int = 0) -> float | None:
        """Time at which text matching the pattern was painted, in the output from `place` on; None if it does not
        come in time.
        """
        wanted = re.compile(pattern.encode())
        until = time.perf_counter() + most
        size = -1
        while time.perf_counter() < until:
            if len(self.output) != size:
                size = len(self.output)
                if wanted.search(_ESCAPES.sub(b"", bytes(self.output[start:]))):
                    return self._ended
            if not self._take(QUIET_SECONDS):
                return None
        return None

    def words(self, start: int = 0) -> str:
        """The output from `place` on, without escape sequences."""
        return _ESCAPES.sub(b"", bytes(self.output[start:])).decode(errors="replace")

    def _take(self, seconds: float) -> bool:
        """Read the output there is, waiting for some at most this long; False if the program has closed its side."""
        if not select.select([self._mine], [], [], seconds)[0]:
            self._end_burst()
            return True
        try:
            written = os.read(self._mine, 1 << 16)
        except OSError:  # Linux's end of file on a terminal whose other side is closed
            self._end_burst()
            return False
        now = time.perf_counter()
        if self._began is None:
            self._began, self._burst_size = now, 0
        self._ended, self._burst_size = now, self._burst_size + len(written)
        self._burst_cpu = self.cpu
        self.output += written
        self._answer(written)
        return bool(written)

    def _end_burst(self) -> None:
        if self._began is not None:
            self.bursts.append(Burst(self._began, self._ended, self._burst_size, self._burst_cpu))
            self._began = None

    def _answer(self, written: bytes) -> None:
        asked = self._tail + written
        for question, answer in _ANSWERS:
            for _ in range(asked.count(question) - self._tail.count(question)):
                os.write(self._mine, answer)
        self._tail = asked[-16:]
