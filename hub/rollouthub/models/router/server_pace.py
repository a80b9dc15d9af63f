"""How long a server usually takes: what a call costs it to start, and what each token of the answer adds."""

import math
from dataclasses import dataclass

MEMORY_SECONDS = 30.0
"""A server that has been slow for as long is as it is."""


@dataclass(slots=True)
class Window:
    """Answers of a stretch of time, added up."""

    answers: int = 0
    seconds: float = 0.0
    tokens: float = 0.0
    square: float = 0.0
    """Tokens times tokens."""
    product: float = 0.0
    """Tokens times seconds."""

    def add(self, seconds: float, tokens: int) -> None:
        """Count an answer."""
        self.answers += 1
        self.seconds += seconds
        if tokens:
            self.tokens += tokens
            self.square += tokens * tokens
            self.product += tokens * seconds


class Pace:
    """A straight line of seconds over tokens, fitted to what was seen of late; every window counts by its length."""

    __slots__ = ("_product", "_square", "_tokens", "known_since", "seconds", "work")

    def __init__(self) -> None:
        self.known_since: float | None = None
        """When the first answers came."""
        self.seconds = 0.0
        """What a call takes; 0 before the first answer."""
        self.work = 0.0
        """Seconds' worth of answers a second, at the pace that is usual."""
        self._tokens = self._square = self._product = 0.0

    def usual(self, window: Window) -> float:
        """Seconds the window's answers would usually have taken, all together."""
        spread = self._square - self._tokens**2
        slope = 0.0
        if spread > 0.01 * self._square:
            slope = (self._product - self._tokens * self.seconds) / spread
            slope = min(max(slope, 0.0), self.seconds / self._tokens)
        start = self.seconds - slope * self._tokens
        return start * window.answers + slope * window.tokens

    def learn(self, window: Window, age: float, now: float, usual: float) -> None:
        """Take notice of a window of so many seconds. `usual` is what was expected of it."""
        keep = math.exp(-age / MEMORY_SECONDS)
        work = usual / age if age else self.work
        if self.known_since is None:
            self.known_since, keep, work = now, 0.0, window.seconds / max(age, 0.1)
        elif window.seconds < usual / 2:
            keep **= 4  # good news is believed sooner
        new = (1.0 - keep) / window.answers
        self.seconds = keep * self.seconds + new * window.seconds
        self._tokens = keep * self._tokens + new * window.tokens
        self._square = keep * self._square + new * window.square
        self._product = keep * self._product + new * window.product
        self.work = keep * self.work + (1.0 - keep) * work
