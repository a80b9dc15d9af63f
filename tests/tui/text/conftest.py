"""`hub watch --text` in this process: what is typed is given, what is said is kept."""

import io
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from rollouthub_tui.text.output import Output
from rollouthub_tui.text.position import Position
from rollouthub_tui.text.prompt import do
from tests.tui.made import NOW


class Person:
    """Sits at a terminal that is not there: answers what is asked, and types while something goes on."""

    is_prompted = True

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.enter = anyio.Event()

    def next(self) -> str | None:
        """Nothing more: tests say what is done."""
        return None

    async def answer(self, question: str) -> str | None:
        """As the test said beforehand."""
        return self.answers.pop(0)

    async def interruption(self) -> str | None:
        """An empty line, when the test presses Enter."""
        await self.enter.wait()
        return ""


class Listener:
    """Types, and hears what is said to it."""

    def __init__(self, roots: Sequence[Path], environ: Mapping[str, str], clock: Callable[[], float]) -> None:
        self.person, self._out = Person(), io.StringIO()
        self.session = Position(Output(self._out), self.person, roots, environ, clock)

    async def types(self, command: str) -> str:
        """What is said to a command."""
        before = len(self.heard)
        await do(self.session, command)
        return self.heard[before:]

    @property
    def heard(self) -> str:
        """All that was said."""
        return self._out.getvalue()


@asynccontextmanager
async def listening(
    *roots: Path, environ: Mapping[str, str] | None = None, clock: Callable[[], float] = lambda: NOW
) -> AsyncGenerator[Listener]:
    """Somebody who looks at the runs of some folders; no hub is seen, unless the surroundings say where."""
    listener = Listener(roots, environ or {"XDG_RUNTIME_DIR": "/nonexistent", "HOME": "/nonexistent"}, clock)
    try:
        yield listener
    finally:
        listener.session.leave_run()


def is_plain(text: str) -> bool:
    """Whether there is nothing in it but printable characters and newlines, and nothing that only draws."""
    drawing = any(0x2500 <= ord(letter) < 0x25A0 or 0x2800 <= ord(letter) < 0x2900 for letter in text)
    return not drawing and text.replace("\n", "").isprintable()
