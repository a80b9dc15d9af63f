"""Logging set-up: warnings go to the terminal, all of a run's log records to its own `logs/`."""

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path

from rollouthub.http.redaction import RedactingFormatter
from rollouthub.plugins.plain_files import open_plain
from rollouthub.text import plain

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_EPISODES = ("rollouthub.hosting", "rollouthub.engine")
"""Loggers shown on the terminal only with `-v`: episode faults are counted there, and recorded in the run's log."""
_FOR_EVERYONE = {
    "rollouthub.hosting.local.episode_sandboxes",
    "rollouthub.engine.run_limits",
}
"""Exceptions to `_EPISODES`, always shown: warnings of weaker isolation or of a limit that is close."""


def log_to_terminal(verbosity: int) -> None:
    """Log to stderr: warnings by default, INFO with `-v`, DEBUG with `-vv`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)])
    if not verbosity:
        handler.addFilter(_is_for_everyone)
    handler.setFormatter(_TerminalFormatter(_FORMAT))
    logging.basicConfig(level=handler.level, handlers=[handler])
    logging.captureWarnings(True)


class _TerminalFormatter(RedactingFormatter):
    def format(self, record: logging.LogRecord) -> str:
        """Format the record without control characters, since records quote agents, tasks and servers."""
        text = super().format(record)
        return plain(text)


def _is_for_everyone(record: logging.LogRecord) -> bool:
    """Whether a record is shown without `-v`: the hub's own are, those of libraries and episodes are not."""
    return record.name in _FOR_EVERYONE or (
        record.name.startswith("rollouthub") and not record.name.startswith(_EPISODES)
    )


@contextmanager
def log_to_run(directory: Path) -> Generator[None]:
    """While the block runs, also log to the run's `logs/run.log`; the file is created with its first record."""
    handler = _RunLog(directory / "logs" / "run.log")
    handler.setFormatter(RedactingFormatter(_FORMAT))
    logger = logging.getLogger("rollouthub")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(logging.INFO, logging.getLogger().level or logging.INFO))
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
        handler.close()


class _RunLog(logging.FileHandler):
    """A file handler that opens its file at the first record, and ignores write errors so that the run goes on."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, delay=True, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=open_plain)

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # a link or a pipe in its place is not written
            if Path(self.baseFilename).parent.is_dir():
                super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore write errors: the store reports a full disk."""
