"""Scores a run again: runs `hub score`, shows its output, and opens the new run."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, Log

from rollouthub.processes import HUB
from rollouthub.text import plain, plain_name
from rollouthub_tui.navigation import app_of, navigator

_MOST_LINES, _LONGEST_LINE = 2000, 400


def free_directory(source: Path) -> Path:
    """A directory for the new scores that does not exist yet, beside the run."""
    names = (f"{source.name}-rescored{f'-{number}' if number > 1 else ''}" for number in range(1, 1000))
    return next(path for name in names if not (path := source.with_name(name)).exists())


class RescoreScreen(ModalScreen[None]):
    """Runs `hub score` on a run, and opens the new run."""

    DEFAULT_CSS = """
    RescoreScreen { align: center middle; }
    RescoreScreen > Vertical {
        width: 100; max-width: 96%; height: 80%; padding: 1 2; border: round $primary; background: $surface;
    }
    RescoreScreen #title { text-style: bold; }
    RescoreScreen Log { height: 1fr; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,l", "open", "Open the new run"),
        Binding("escape,q,h", "leave", "Stop, or close"),
    ]

    def __init__(self, source: Path, *, hub: Sequence[str] = HUB) -> None:
        super().__init__()
        self._source, self._hub = source.resolve(), hub
        self.directory = free_directory(self._source)
        """Directory of the run with the new scores."""
        self._process: Process | None = None
        self._is_over = False

    def compose(self) -> ComposeResult:
        """What is being done, the output of the command, and the keys."""
        with Vertical():
            yield Label(Text(f"Scoring {plain_name(self._source.name)} anew"), id="title")
            yield Log(max_lines=_MOST_LINES)
            yield Label(Text("escape: stop"), id="keys")

    def on_mount(self) -> None:
        """Start scoring the run again."""
        self.query_one(Log).focus()
        self.run_worker(self._score, name="rescore")

    async def _score(self) -> None:
        environ = {**navigator(self).environ, "COLUMNS": str(max(40, min(94, app_of(self).size.width - 12)))}
        command = [*self._hub, "score", str(self._source), "-o", str(self.directory)]
        log = self.query_one(Log)
        log.write_line(f"hub score {plain(str(self._source), _LONGEST_LINE)} -o {plain_name(self.directory.name)}")
        async with await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=environ, start_new_session=True
        ) as process:
            self._process = process
            assert process.stdout is not None
            rest = ""
            async for text in TextReceiveStream(process.stdout, errors="replace"):
                *lines, rest = (rest + text).replace("\r", "\n").split("\n")
                log.write_lines(plain(line, _LONGEST_LINE) for line in lines)
                rest = rest[:_LONGEST_LINE]
            log.write_line(plain(rest, _LONGEST_LINE))
            code = await process.wait()
        self._over(code)

    def _over(self, code: int) -> None:
        self._is_over = True
        is_there = (self.directory / "run.db").exists()
        title = {0: "Every rollout is scored", 1: "Some rollouts are not scored", 130: "Interrupted"}
        self.query_one("#title", Label).update(Text(title.get(code, f"It failed (exit code {code})")))
        keys = f"{'enter: open the new run   ' if is_there else ''}escape: close"
        self.query_one("#keys", Label).update(Text(f"{keys}   {plain(str(self.directory), _LONGEST_LINE)}"))

    def action_open(self) -> None:
        """Open the new run."""
        if self._is_over and (self.directory / "run.db").exists():
            to = navigator(self)
            self.dismiss(None)
            to.open_run(self.directory)

    def action_leave(self) -> None:
        """Close; while the command runs, interrupt it as Ctrl-C does, so that it finishes what is in flight."""
        if self._is_over or self._process is None:
            self.dismiss(None)
        elif self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
            self.query_one("#keys", Label).update(Text("stopping: what is in flight is finished; again stops at once"))
