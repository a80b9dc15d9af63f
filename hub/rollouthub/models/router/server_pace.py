"""How long a server's answers usually take: a fixed time per call plus a time per output token."""

import math
from dataclasses import dataclass

MEMORY_SECONDS = 30.0
"""Time constant in seconds: a change of speed that lasts this long becomes the usual speed."""


@dataclass(slots=True)
class Window:
    """Sums over the answers of a stretch of time."""

    answers: int = 0
    seconds: float = 0.0
    tokens: float = 0.0
    square: float = 0.0
    """Sum of squared token counts."""
    product: float = 0.0
    """Sum of tokens times seconds."""

    def add(self, seconds: float, tokens: int) -> None:
        """Add an answer's duration in seconds and its tokens."""
        self.answers += 1
        self.seconds += seconds
        if tokens:
            self.tokens += tokens
            self.square += tokens * tokens
            self.product += tokens * seconds


class Pace:
    """A line of seconds over tokens, fitted to recent windows, each weighted by its length."""

    __slots__ = ("_product", "_square", "_tokens", "known_since", "seconds", "work")

    def __init__(self) -> None:
        self.known_since: float | None = None
        """Clock time of the first window with answers; None before."""
        self.seconds = 0.0
        """Mean seconds of a call; 0 before the first answer."""
        self.work = 0.0
        """Usual seconds of work that the server answers per second."""
        self._tokens = self._square = self._product = 0.0

    def usual(self, window: Window) -> float:
        """Seconds that the window's answers would usually take, summed."""
        spread = self._square - self._tokens**2
        slope = 0.0
        if spread > 0.01 * self._square:
            slope = (self._product - self._tokens * self.seconds) / spread
            slope = min(max(slope, 0.0), self.seconds / self._tokens)
        start = self.seconds - slope * self._tokens
        return start * window.answers + slope * window.tokens

    def learn(self, window: Window, age: float, now: float, usual: float) -> None:
        """Update the line by a window of `age` seconds; `usual` is what was expected of it."""
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
