"""Ends a run whose model server refuses every request: only 4xx errors, always with the same text."""

import re

from rollouthub.engine.stop_signal import StopSignal
from rollouthub.rollout import Fault, Rollout

MOST = 50
"""Number of attempts, from the run's first on, that must all be refused with the same error before the run ends."""
_NUMBER = re.compile(r"\d+")


class Refusals:
    """Sets a run's stop signal if the model server refused the first `MOST` attempts with the same error."""

    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop
        self._words: str | None = None
        self._count = 0
        self._is_over = False

    def came_in(self, rollout: Rollout) -> None:
        """Count a record before it is stored."""
        if self._is_over:
            return
        refused = next((fault for fault in rollout.faults if _is_refusal(fault)), None)
        if rollout.score is not None or refused is None or self._words not in (None, words := _words(refused)):
            self._is_over = True
            return
        self._words = words
        self._count += 1
        if self._count == MOST:
            self._is_over = True
            self._stop.set(f"the first {MOST} rollouts were all refused alike: {refused.message}; --resume goes on")


def _is_refusal(fault: Fault) -> bool:
    return fault.boundary == "model" and fault.status is not None and 400 <= fault.status < 500 and not fault.retryable


def _words(fault: Fault) -> str:
    """The server's error text with each number replaced by `#`, because numbers may differ from call to call."""
    return _NUMBER.sub("#", fault.message.partition("HTTP ")[2])
