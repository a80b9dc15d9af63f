"""The compact view of `hub run` at a terminal, and what is printed elsewhere."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from select import select

import pyte

from .conftest import HUB, Hub, environment, started

SLOW = ("-m", "mock/solver?latency=0.1", "-c", "4")
DEADLINE_SECONDS = 60


class Terminal:
    """A terminal in which a run plays."""

    def __init__(self, ours: int, process: "subprocess.Popen[bytes]", width: int, height: int) -> None:
        self._ours, self.process = ours, process
        self.screen = pyte.HistoryScreen(width, height, history=1000)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""

    def resize(self, width: int, height: int) -> None:
        """Somebody pulls at its corner."""
        _set_size(self._ours, width, height)
        self.screen.resize(height, width)

    def read(self, until: Callable[[str], bool] | None = None) -> str:
        """Read until something is seen, or the run has left."""
        while until is None or not until(self.seen):
            assert select([self._ours], [], [], DEADLINE_SECONDS)[0], self.seen
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # Linux says so of a terminal that everybody has left
                piece = b""
            if not piece:
                assert until is None, self.seen
                break
            self.written += piece
            self._stream.feed(piece)
        return self.seen

    @property
    def seen(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()


def _set_size(terminal: int, width: int, height: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


@contextmanager
def at_terminal(folder: Path, *arguments: str, width: int = 100, height: int = 30) -> Generator[Terminal]:
    """A `hub run … -o run` at a terminal of that size."""
    ours, theirs = pty.openpty()
    _set_size(theirs, width, height)
    variables = environment(TERM="xterm-256color")
    del variables["COLUMNS"]
    process = subprocess.Popen(
        [*HUB, "run", "arithmetic", *arguments, "-o", "run"],
        cwd=folder, env=variables, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Terminal(ours, process, width, height)
        process.wait(DEADLINE_SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_run_at_a_terminal_shows_how_it_goes_and_how_to_watch_it_whatever_the_size(tmp_path: Path) -> None:
    with at_terminal(tmp_path, *SLOW, "--limit", "60") as terminal:
        live = terminal.read(until=lambda seen: "█ passed" in seen and "p50" in seen)
        assert live.startswith("watch it: hub watch run")
        for words in ("arithmetic · tool_loop · mock/solver", "/60", "ETA", "mean reward 1.000", "█ passed", "speed"):
            assert words in live, live
        for width, height in ((40, 8), (200, 50), (60, 5), (100, 40)):
            terminal.resize(width, height)
            before = len(terminal.written)
            terminal.read(until=lambda _, before=before: len(terminal.written) > before + 200)
        terminal.read()
    assert terminal.process.returncode == 0
    assert "60/60" in terminal.seen
    assert "Look inside with: hub show run" in terminal.seen
    assert "Traceback" not in terminal.written.decode()
    assert terminal.written.count(b"watch it: ") == 1


def test_a_quiet_run_draws_nothing(tmp_path: Path) -> None:
    with at_terminal(tmp_path, "--limit", "3", "-q") as terminal:
        terminal.read()
    assert terminal.process.returncode == 0
    assert "watch it" not in terminal.written.decode()
    assert b"\x1b[1A" not in terminal.written


def test_elsewhere_there_are_plain_lines(hub: Hub, tmp_path: Path) -> None:
    with started(tmp_path, "run", "arithmetic", "-m", "mock/solver", "--limit", "3", "-o", "a run") as process:
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
    first, last = err.splitlines()
    assert first == "watch it: hub watch 'a run'"
    assert last.startswith("3/3 · ")
    assert "reward 1.000 · pass 100.0%" in last
    assert hub("run", "arithmetic", "-m", "mock/solver", "--limit", "3", "-o", "silent", "-q").err == ""
