"""Where logs go: warnings to the terminal, everything about a run into its own `logs/`."""

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rollouthub.http.redaction import RedactingFormatter
from rollouthub.text import plain

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_EPISODES = ("rollouthub.hosting", "rollouthub.engine")
"""What breaks in episodes is counted on the screen and kept in the run's log; a traceback each would bury the rest."""
_FOR_EVERYONE = {"rollouthub.hosting.local.episode_sandboxes", "rollouthub.engine.run_limits"}
"""Say once a run that its walls are weaker than those that would have been taken first, that a limit is near."""


def log_to_terminal(verbosity: int) -> None:
    """Warnings by default; more with every `-v`, episodes' tracebacks included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)])
    if not verbosity:
        handler.addFilter(_is_for_everyone)
    handler.setFormatter(_TerminalFormatter(_FORMAT))
    logging.basicConfig(level=handler.level, handlers=[handler])
    logging.captureWarnings(True)


class _TerminalFormatter(RedactingFormatter):
    def format(self, record: logging.LogRecord) -> str:
        """Without what drives a terminal: records quote agents, tasks and servers."""
        text = super().format(record)
        return plain(text)


def _is_for_everyone(record: logging.LogRecord) -> bool:
    """The hub's own words; a library's retries and deprecations are for those who ask with `-v`."""
    return record.name in _FOR_EVERYONE or (
        record.name.startswith("rollouthub") and not record.name.startswith(_EPISODES)
    )


@contextmanager
def log_to_run(directory: Path) -> Generator[None]:
    """Also into the run's `logs/run.log`; the file is made when there is something to say."""
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
    """A file that is opened at its first record, and given up where it cannot be written: the run matters more."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, delay=True, encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        if Path(self.baseFilename).parent.is_dir():
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Full disks are the store's to report."""
