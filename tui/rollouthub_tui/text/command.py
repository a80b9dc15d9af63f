"""`hub watch --text`: on a terminal, a prompt; else it follows a run in lines until the run ends."""

import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import cast

import anyio

from rollouthub.cli.run_lookup import find_watched
from rollouthub.errors import HubError, UsageError
from rollouthub_tui.crash_message import breakage, logging_beside
from rollouthub_tui.text.command_input import Given, Typed
from rollouthub_tui.text.live_events import Announcer
from rollouthub_tui.text.output import Output
from rollouthub_tui.text.position import Position
from rollouthub_tui.text.prompt import converse
from rollouthub_tui.text.run_words import run_lines
from rollouthub_tui.text.view_commands import runs

_STDIN = "-"
_ENDING = 128
"""Added to a signal's number for the exit code of a program that it ended, as shells do."""


def run_text(
    name: str | None, roots: Sequence[Path], environ: Mapping[str, str], commands: Sequence[str] | None
) -> int:
    """Run the text mode; returns the exit code. `commands` are run instead of a prompt; `-` stands for the lines of
    stdin.
    """
    for stream in (sys.stdout, sys.stderr):
        cast(io.TextIOWrapper, stream).reconfigure(errors="replace")  # a console may have few letters
    is_prompted = commands is None and os.isatty(0) and os.isatty(1)
    output = Output(sys.stdout, None if is_prompted else sys.stderr)
    lines = Typed(0, output) if is_prompted else Given(_read(commands or ()))
    session = Position(output, lines, roots, environ)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    with logging_beside(environ):
        try:
            anyio.run(_begin, session, name, commands is not None, backend="asyncio")
            if is_prompted:
                output.say("help lists the words, quit leaves.")
            converse(session)
        except KeyboardInterrupt:
            return 0
        except BrokenPipeError:
            raise
        except HubError as error:
            output.complain(f"error: {error}")
            return 2 if isinstance(error, UsageError) else 1
        except Exception as error:
            output.complain(breakage(error, environ))
            return 1
        finally:
            session.leave_run()
    return int(output.is_refused and not is_prompted)


def _leave(number: int, _: FrameType | None) -> None:
    """Exit on SIGTERM and SIGHUP in a way that runs all clean-up, such as removing files copied for reading."""
    sys.exit(_ENDING + number)


async def _begin(session: Position, name: str | None, has_commands: bool) -> None:
    """Show where the session starts; without commands and prompt, follow the run to its end."""
    if name is None:
        if not has_commands:
            await runs(session, "")
        return
    run = await session.open_run(await find_watched(name, session.roots, session.environ))
    if has_commands:
        return
    session.output.say_all(run_lines(run))
    if not session.lines.is_prompted and run.feed.info.status == "running":
        await Announcer(run, session.output, is_heard=False).announce()
        session.output.say_all(run_lines(run))


def _read(commands: Sequence[str]) -> Iterator[str]:
    for command in commands:
        if command == _STDIN:
            yield from sys.stdin
        else:
            yield command
