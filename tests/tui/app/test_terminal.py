"""`hub watch` in a terminal of its own: what is left of it afterwards, however it ends."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from rollouthub.live.control.socket_folder import find_sockets
from tests.live.control.conftest import runtime
from tests.store.records import record, write

__all__ = ["runtime"]

pytestmark = pytest.mark.live

HUB = [sys.executable, "-c", "from rollouthub.cli.main import main; main()"]
LEFT, SHOWN, CURSOR = b"\x1b[?1049l", b"\x1b[?1049h", b"\x1b[?25h"
MOUSE_OFF = b"\x1b[?1000l"
PATIENCE_SECONDS = 30.0
YARD = Path(__file__).parents[2] / "live_control" / "yard.py"


class Terminal:
    """One end of a terminal; the program has the other."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int, theirs: int) -> None:
        self.process, self._ours, self._theirs = process, ours, theirs
        self.seen = b""

    def until(self, words: bytes) -> None:
        """Read until it has shown something."""
        end = time.monotonic() + PATIENCE_SECONDS
        while words not in self.seen:
            assert time.monotonic() < end, (words, self.seen[-2000:])
            assert self.process.poll() is None, self.seen[-2000:]
            self._read(0.1)

    def until_after(self, start: int, words: bytes) -> None:
        """The same of what it has shown since."""
        before, self.seen = self.seen[:start], self.seen[start:]
        try:
            self.until(words)
        finally:
            self.seen = before + self.seen

    def _read(self, seconds: float) -> None:
        if select.select([self._ours], [], [], seconds)[0]:
            self.seen += os.read(self._ours, 65536)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._ours, keys)

    def end(self) -> int:
        """The exit code; what it still writes is read meanwhile."""
        limit = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < limit, self.seen[-2000:]
            self._read(0.1)
        while select.select([self._ours], [], [], 0)[0]:
            self._read(0)
        return self.process.returncode

    def close(self) -> None:
        """Close the window: the program's end is hung up."""
        os.close(self._theirs)
        os.close(self._ours)
        self._theirs, self._ours = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)

    @property
    def modes(self) -> list[object]:
        """How the terminal is set."""
        return termios.tcgetattr(self._theirs)


@contextmanager
def watching(
    folder: Path, *, program: Sequence[str] = (*HUB, "watch"), **environ: str
) -> Generator[tuple[Terminal, list[object]]]:
    """`hub watch` in a terminal of 80 by 24; and how that was set before."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    given = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        ["setsid", "--ctty", *program],  # the terminal's own session, so that Ctrl-C is a signal there
        cwd=folder,
        env={**given, **environ},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    terminal = Terminal(process, ours, theirs)
    try:
        yield terminal, before
    finally:
        process.kill()
        process.wait()
        terminal.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a run in it."""
    anyio.run(write, tmp_path / "runs" / "here-it-is", [record("g1-0")])
    return tmp_path


@pytest.mark.parametrize(
    ("how", "code"),
    [(b"q", 0), (b"\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 0)],
    ids=["q", "ctrl-c", "TERM", "HUP", "INT"],
)
def test_the_terminal_is_as_it_was(folder: Path, how: bytes | signal.Signals, code: int) -> None:
    with watching(folder) as (terminal, before):
        terminal.until(b"here-it-is")
        if isinstance(how, bytes):
            terminal.type(how)
        else:
            terminal.process.send_signal(how)
        assert terminal.end() == code
        assert terminal.modes == before
        # The last word on each: shown again, no screen of its own, no mouse.
        assert terminal.seen.rfind(LEFT) > terminal.seen.rfind(SHOWN) >= 0
        assert terminal.seen.rfind(CURSOR) > terminal.seen.rfind(b"\x1b[?25l")
        assert terminal.seen.rfind(MOUSE_OFF) > terminal.seen.rfind(b"\x1b[?1000h")
        assert b"Traceback" not in terminal.seen


@contextmanager
def watching_a_run(folder: Path) -> Generator[tuple[Terminal, list[object]]]:
    """Its overview, and a pager that says so and waits for a line."""
    log = folder / "runs" / "here-it-is" / "logs" / "run.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("what there is to read")
    pager = "sh -c 'echo it pages; read line'"
    with watching(folder, program=(*HUB, "watch", "here-it-is"), PAGER=pager) as (terminal, before):
        terminal.until(b"overview")
        yield terminal, before


def page(terminal: Terminal) -> None:
    """Have the log in the pager."""
    terminal.type(b"o")
    terminal.until(b"run.log")
    terminal.type(b"\r")
    terminal.until(b"it pages")


@pytest.mark.parametrize("pages", [False, True], ids=["on a screen", "in a pager"])
def test_it_leaves_when_its_window_is_closed(folder: Path, pages: bool) -> None:
    with watching_a_run(folder) as (terminal, _):
        if pages:
            page(terminal)
        terminal.close()
        terminal.process.wait(PATIENCE_SECONDS)


def test_told_to_end_while_another_program_has_the_terminal_it_leaves_after_that(folder: Path) -> None:
    with watching_a_run(folder) as (terminal, before):
        page(terminal)
        terminal.process.terminate()
        terminal.type(b"\n")
        assert terminal.end() == 143
        assert terminal.modes == before


def test_an_app_that_breaks_gives_the_terminal_back_and_says_two_lines(folder: Path) -> None:
    program = """
from pathlib import Path
import os, sys
from rollouthub_tui.app import app, command
class Broken(app.WatchApp):
    def on_mount(self):
        self.set_timer(0.5, lambda: self.run_worker(self.explode()))
    async def explode(self):
        raise ValueError("[bold]boom[/bold] \\x1b]0;owned\\x07")
app.WatchApp = Broken
sys.exit(command._show(None, [Path("runs")], dict(os.environ)))
"""
    with watching(folder, program=[sys.executable, "-c", program]) as (terminal, before):
        assert terminal.end() == 1
        assert terminal.modes == before
        said = terminal.seen[terminal.seen.rindex(LEFT) :]
        assert b"hub watch broke: ValueError: [bold]boom[/bold]\r\n" in said
        assert b"Traceback" not in terminal.seen
        assert b"owned" not in said
    log = (folder / "state" / "rollouthub" / "watch.log").read_text()
    assert "Traceback" in log
    assert "in explode" in log
    assert "\x1b" not in log


def test_no_color_leaves_shades_of_grey(folder: Path) -> None:
    with watching(folder, NO_COLOR="1", COLORTERM="truecolor") as (terminal, _):
        terminal.until(b"here-it-is")
        terminal.type(b"q")
        assert terminal.end() == 0
    tints = set(re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", terminal.seen))
    assert tints
    assert [tint for tint in tints if len(set(tint)) != 1] == []
    assert re.findall(rb"\x1b\[(?:\d+;)*(?:[349][1-7]|10[1-7]|[34]8;5;\d+)(?:;|m)", terminal.seen) == []


def test_a_terminal_that_cannot_be_drawn_on_is_left_alone(folder: Path) -> None:
    with watching(folder, TERM="dumb") as (terminal, before):
        assert terminal.end() == 2
        assert b"cannot draw on a terminal of type 'dumb'" in terminal.seen
        assert b"\x1b[?" not in terminal.seen
        assert terminal.modes == before


def test_a_shell_in_a_rollouts_sandbox_has_the_terminal_and_gives_it_back(folder: Path, runtime: Path) -> None:
    here = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(runtime)}
    play = ["run", str(YARD), "--set", "sandbox=process", "-m", "mock/solver?latency=60", "--limit", "1"]
    with subprocess.Popen(
        [*HUB, *play, "-o", "runs/yard", "-q"], cwd=folder, env={**os.environ, **here}, stderr=subprocess.DEVNULL
    ) as hub:
        try:
            while not find_sockets((runtime / "rollouthub",)):
                assert hub.poll() is None
                time.sleep(0.05)
            with watching(folder, program=[*HUB, "watch", "yard"], **here) as (terminal, before):
                terminal.until(b"model")
                terminal.type(b"2")
                terminal.until(b"newest first")
                terminal.type(b"!")
                terminal.until(LEFT)
                terminal.type(b"sh -c 'echo $((40 + 2)) inside $(hostname); exec sleep 100'\n")
                terminal.until(b"42 inside sandbox")
                terminal.type(b"\x03")
                terminal.type(b"exit\n")
                terminal.seen = terminal.seen[terminal.seen.index(LEFT) :]
                terminal.until(SHOWN)
                terminal.until(b"Cancel")
                terminal.type(b"\x03")
                assert terminal.end() == 0
                assert terminal.modes == before
        finally:
            hub.kill()
