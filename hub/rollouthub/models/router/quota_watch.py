"""Says once each when four fifths of a limit are used, and when nearly all of it is."""

import logging

logger = logging.getLogger(__name__)

LEVELS = (0.8, 0.95)
"""Shares of a limit that are worth a word."""


class QuotaWatch:
    """Watches one limit. `what` names it, with its value."""

    __slots__ = ("_next", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = LEVELS[0]

    def used(self, share: float) -> None:
        """So much of it is used now."""
        if share < self._next:
            return
        # One that leaps past several levels is one piece of news.
        reached = max(level for level in LEVELS if level <= share)
        self._next = min((level for level in LEVELS if level > share), default=float("inf"))
        logger.warning("%s: %.0f %% are used", self._what, 100 * reached)
