"""A run that plays in this process, and a plain screen from which it is steered."""

from collections.abc import Iterator

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Footer, Static

from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.screens.steering_screen import SteeringScreen
from tests.live.control.conftest import runtime, watch

__all__ = ["Plain", "runtime", "told", "watch"]


class Plain(SteeringScreen):
    """Shows nothing; what is meant is said by the test."""

    def __init__(self, run: WatchedRun, target: Target | None = None) -> None:
        super().__init__()
        self._run, self.aim = run, target
        self.marked: list[Target] = []

    def compose(self) -> ComposeResult:
        """As little as there may be."""
        yield Static("a run")
        yield Footer()

    @property
    def watched(self) -> WatchedRun:
        """The run that is steered."""
        return self._run

    @property
    def target(self) -> Target | None:
        """What the test says."""
        return self.aim

    @property
    def targets(self) -> list[Target]:
        """The rollouts that a test marks."""
        return self.marked


def told(app: App[None]) -> list[str]:
    """What the app has told so far."""
    return [notification.message for notification in app._notifications]  # pyright: ignore[reportPrivateUsage]  # no other way


@pytest.fixture(autouse=True)
def quiet_web(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test takes its terminal for a browser's."""
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    yield
