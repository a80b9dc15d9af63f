"""Detects failures that a rubric hides: verifiers turns a failing reward function into reward 0 and only logs it."""

# Runs in the foreign process.
# pyright: basic

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rollouthub_servers.foreign.code_failures import SHOWN, is_outside

_SWALLOWED = ("Math verification hit hard timeout", "Math verification failed")
"""Log messages of the mathematics rubric when it gives 0 because it could not compare."""


class _Heard(logging.Handler):
    """A log handler that records the failures of reward functions that the library logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failed: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        error, told = sys.exc_info()[1], record.getMessage()
        if error is not None and "reward function" in told:
            said = f"{type(error).__name__}: {error}"[:SHOWN]
            self.failed.append({"said": said, "outside": is_outside(error)})
        elif any(words in told for words in _SWALLOWED):
            self.failed.append({"said": told[:SHOWN], "outside": False})


@contextmanager
def watched() -> "Generator[list[dict[str, Any]]]":
    """Yield a list that collects the failures of reward functions inside the block: each message, and whether a
    service caused it.
    """
    heard = _Heard()
    logger = logging.getLogger("verifiers")
    was_disabled, level = logger.disabled, logger.level
    logger.addHandler(heard)
    logger.disabled = False
    logger.setLevel(min(level or logging.WARNING, logging.WARNING))
    try:
        yield heard.failed
    finally:
        logger.removeHandler(heard)
        logger.disabled = was_disabled
        logger.setLevel(level)
