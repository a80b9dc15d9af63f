"""The steps of publishing, reported as they complete."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol


class Screen(Protocol):
    """Where steps are shown."""

    def begun(self, what: str) -> None:
        """A step is under way."""
        ...

    def noted(self, what: str) -> None:
        """Something happened on the way."""
        ...

    def done(self, what: str, said: str, seconds: float) -> None:
        """A step is done."""
        ...

    def failed(self, what: str) -> None:
        """A step was not done; the error follows."""
        ...


@dataclass
class Step:
    """One step under way."""

    note: Callable[[str], None]
    """Tells what happens on the way."""
    said: str = ""
    """What came of it, told with its end."""


@dataclass(frozen=True)
class StepDone:
    """A step that was done."""

    step: str
    seconds: float


@dataclass
class Steps:
    """Tells a screen of each step, and keeps how long it took."""

    screen: Screen
    all: list[StepDone] = field(default_factory=list[StepDone])

    @contextmanager
    def step(self, what: str) -> Generator[Step]:
        """One step."""
        started = time.perf_counter()
        self.screen.begun(what)
        step = Step(self.screen.noted)
        try:
            yield step
        except BaseException:
            self.screen.failed(what)
            raise
        seconds = time.perf_counter() - started
        self.all.append(StepDone(what, round(seconds, 3)))
        self.screen.done(what, step.said, seconds)
