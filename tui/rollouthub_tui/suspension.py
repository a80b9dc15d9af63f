"""Suspends the UI while another program uses the terminal."""

import os
import signal
import termios
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from textual.app import App, SuspendNotSupported

from rollouthub.errors import UsageError

_STDIN = 0
_ENDS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def away(app: App[Any]) -> Generator[None]:
    """Give the terminal to another program until the block ends; Ctrl-C then goes to that program.

    If a signal to end arrives meanwhile, or the window is closed, the app quits once the other program has ended.

    Raises:
        UsageError: the app has no terminal.
    """
    wakeup = signal.set_wakeup_fd(-1)  # else the event loop would hear of it, too
    # A handler of Python's, and not "ignore", which the other program would inherit.
    before = {signal.SIGINT: signal.signal(signal.SIGINT, _let_it_be)}
    told: list[int] = []
    for number in _ENDS:
        before[number] = signal.signal(number, lambda number, frame: told.append(number))
    try:
        with app.suspend(), _kept_terminal():
            yield
    except SuspendNotSupported as error:
        raise UsageError("there is no terminal here that another program could have") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        for number in told[-1:]:  # the event loop did not hear of it
            os.kill(os.getpid(), number)


@contextmanager
def _kept_terminal() -> Generator[None]:
    """Restore the terminal's settings and foreground group afterwards, which a shell may leave changed."""
    if not os.isatty(_STDIN):
        yield
        return
    modes = termios.tcgetattr(_STDIN)
    try:
        yield
    finally:
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # what stops a program that is not in front
        try:
            os.tcsetpgrp(_STDIN, os.getpgrp())
            termios.tcsetattr(_STDIN, termios.TCSADRAIN, modes)
        except (OSError, termios.error):
            pass  # the terminal is gone
        finally:
            signal.signal(signal.SIGTTOU, before)


def _let_it_be(number: int, frame: FrameType | None) -> None:
    """Ignore Ctrl-C, which is meant for the program that has the terminal."""
