"""Detects failures that a rubric hides: verifiers turns a failing reward function into reward 0 and only logs it."""

# Runs in the foreign process.
# pyright: basic

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_OUTSIDE = ("openai", "anthropic", "httpx", "aiohttp", "requests", "prime_sandboxes", "prime_tunnel", "httpcore")
_SWALLOWED = ("Math verification hit hard timeout", "Math verification failed")
"""Log messages of the mathematics rubric when it gives 0 because it could not compare."""
_SHOWN = 300


class _Heard(logging.Handler):
    """A log handler that records the failures of reward functions that the library logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failed: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        error, told = sys.exc_info()[1], record.getMessage()
        if error is not None and "reward function" in told:
            said = f"{type(error).__name__}: {error}"[:_SHOWN]
            self.failed.append({"said": said, "outside": is_outside(error)})
        elif any(words in told for words in _SWALLOWED):
            self.failed.append({"said": told[:_SHOWN], "outside": False})


def is_outside(error: "BaseException | None") -> bool:
    """Whether the network or a service is among a failure's causes."""
    seen = 0
    while error is not None and seen < 20:
        if type(error).__module__.partition(".")[0] in _OUTSIDE or isinstance(error, ConnectionError | TimeoutError):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


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
