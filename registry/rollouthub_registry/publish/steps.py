"""The steps of publishing, reported as they complete."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol


class Screen(Protocol):
    """Displays the steps of publishing."""

    def begun(self, what: str) -> None:
        """Called when a step begins."""
        ...

    def noted(self, what: str) -> None:
        """Called with a remark during a step."""
        ...

    def done(self, what: str, said: str, seconds: float) -> None:
        """Called when a step has succeeded."""
        ...

    def failed(self, what: str) -> None:
        """Called when a step has failed; the error is printed later."""
        ...


@dataclass
class Step:
    """A step in progress."""

    note: Callable[[str], None]
    """Shows a remark during the step."""
    said: str = ""
    """The step's result, shown when it ends."""


@dataclass(frozen=True)
class StepDone:
    """A finished step and its duration."""

    step: str
    seconds: float


@dataclass
class Steps:
    """Shows each step on a screen, and records how long it took."""

    screen: Screen
    all: list[StepDone] = field(default_factory=list[StepDone])

    @contextmanager
    def step(self, what: str) -> Generator[Step]:
        """Show a step for as long as the context lasts, and record it."""
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
