"""Logs a warning once when 80 % of a limit are used, and once at 95 %."""

import logging

logger = logging.getLogger(__name__)

LEVELS = (0.8, 0.95)
"""The shares of a limit at which a warning is logged."""


class QuotaWatch:
    """Watches one limit; `what` is the limit's name and value in the warning."""

    __slots__ = ("_next", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = LEVELS[0]

    def used(self, share: float) -> None:
        """Report the share that is used now, and warn if it has reached a new level."""
        if share < self._next:
            return
        # One that leaps past several levels is one piece of news.
        reached = max(level for level in LEVELS if level <= share)
        self._next = min((level for level in LEVELS if level > share), default=float("inf"))
        logger.warning("%s: %.0f %% are used", self._what, 100 * reached)
