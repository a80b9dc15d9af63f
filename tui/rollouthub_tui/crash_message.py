"""The message after a crash of a screen; details go to `hub watch`'s log."""

import logging
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from rollouthub.http.redaction import RedactingFormatter
from rollouthub.text import plain, plain_name
from rollouthub_tui.settings import state_folder

logger = logging.getLogger(__name__)

_FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
_LARGEST_LOG, _LONGEST_RECORD = 2**20, 100_000


class _PlainFormatter(RedactingFormatter):
    """A log formatter that removes characters which could control the terminal of a person reading the log."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines, without control characters."""
        return plain(super().format(record), _LONGEST_RECORD)


def log_path(environ: Mapping[str, str]) -> Path:
    """Path of the log: `$XDG_STATE_HOME/rollouthub/watch.log`."""
    return state_folder(environ) / "watch.log"


@contextmanager
def logging_beside(environ: Mapping[str, str]) -> Generator[None]:
    """Log to a file instead of the terminal, where lines would appear across the screen."""
    root, path = logging.getLogger(), log_path(environ)
    handler: logging.Handler = logging.NullHandler()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LARGEST_LOG:
            path.replace(path.with_suffix(".log.1"))
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = logging.FileHandler(path, encoding="utf-8", errors="replace")
        handler.setFormatter(_PlainFormatter(_FORMAT))
        handler.setLevel(logging.WARNING)
    before = list(root.handlers)
    root.handlers[:] = [handler]
    is_raising, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        yield
    finally:
        logging.raiseExceptions = is_raising
        root.handlers[:] = before
        handler.close()


def breakage(error: BaseException, environ: Mapping[str, str]) -> str:
    """The message for an unexpected error, whose text is not trusted; the full error goes to the log."""
    logger.error("hub watch broke", exc_info=error)
    said = plain_name(str(error))
    return (
        f"hub watch broke: {type(error).__name__}{f': {said}' if said else ''}\n"
        f"The run is not touched by it. The whole story is in {log_path(environ)}; please report it."
    )


def last_words(text: str) -> None:
    """Print a message after the screen was closed."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
