"""Opens screens from other screens without imports between them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, cast

from textual.app import App
from textual.dom import DOMNode

from rollouthub.live.follow import RolloutList
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.settings import Settings


class Navigator(Protocol):
    """The app, as screens and widgets use it."""

    roots: tuple[Path, ...]
    """Folders whose runs are listed."""
    environ: Mapping[str, str]
    settings: Settings
    clock: Callable[[], float]
    """Current time in seconds since 1970."""

    def open_run(self, directory: Path) -> None:
        """Show a run."""
        ...

    def open_rollout(self, run: WatchedRun, rollout_id: str, attempt: int, among: RolloutList | None = None) -> None:
        """Show one rollout, finished or in flight; `among` is the list in which the keys for next and previous move."""
        ...

    def open_pair(self, run: WatchedRun, first: int, second: int) -> None:
        """Show two rollouts side by side, given by their indices in the run's columns."""
        ...

    def open_comparison(self, first: Path, second: Path) -> None:
        """Compare two runs."""
        ...


def navigator(node: DOMNode) -> Navigator:
    """The app of a screen or widget."""
    return cast(Navigator, app_of(node))


def app_of(node: DOMNode) -> App[object]:
    """The app of a screen or widget, with Textual's own type."""
    return cast("App[object]", node.app)  # pyright: ignore[reportUnknownMemberType]  # Textual leaves its type open
