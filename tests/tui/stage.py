"""A stage: an app that shows one screen, with nothing of this machine or of now in it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from textual.app import App
from textual.events import Event, Key, Paste
from textual.screen import Screen

import rollouthub_tui
from rollouthub.live.follow import RolloutList
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.app.type_ahead import TypeAhead
from rollouthub_tui.settings import Settings
from tests.tui.made import NOW

LIGHT, DARK = "textual-light", "textual-dark"
NARROW, WIDE = (80, 24), (200, 60)
_CSS = Path(rollouthub_tui.__file__).parent / "app" / "watch.tcss"


def standing() -> float:
    """The moment at which made runs are looked at, always the same."""
    return NOW


class Stage(App[None]):
    """Shows a screen; what it leads to is noted in `opened`, not opened."""

    TITLE = "hub watch"
    CSS_PATH = _CSS if _CSS.exists() else None

    def __init__(
        self,
        make: Callable[[], Screen[None]],
        *,
        environ: Mapping[str, str],
        roots: tuple[Path, ...] = (),
        theme: str = DARK,
        clock: Callable[[], float] = standing,
    ) -> None:
        super().__init__()
        self.roots, self.environ, self.clock = roots, environ, clock
        self.settings = Settings(theme=theme)
        self.opened: list[tuple[object, ...]] = []
        self._make = make
        self.type_ahead = TypeAhead(self, super().on_event, urgent=self._bindings.key_to_bindings)

    async def on_event(self, event: Event) -> None:
        """Keys are given one by one, as `hub watch` gives them."""
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            await self.type_ahead.take(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        """Show it."""
        self.theme = self.settings.theme
        self.push_screen(self._make())

    def open_run(self, directory: Path) -> None:
        """Note that a run was asked for."""
        self.opened.append(("run", directory))

    def open_rollout(self, run: WatchedRun, rollout_id: str, attempt: int, among: RolloutList | None = None) -> None:
        """Note that a rollout was asked for."""
        self.opened.append(("rollout", rollout_id, attempt, among))

    def open_pair(self, run: WatchedRun, first: int, second: int) -> None:
        """Note that two rollouts were asked for."""
        self.opened.append(("pair", first, second))

    def open_comparison(self, first: Path, second: Path) -> None:
        """Note that a comparison was asked for."""
        self.opened.append(("compare", first, second))


def stage(
    make: Callable[[], Screen[None]],
    home: Path,
    *,
    roots: tuple[Path, ...] = (),
    theme: str = DARK,
    clock: Callable[[], float] = standing,
) -> Stage:
    """An app for one screen, at home in a folder that holds no settings and no hubs' sockets."""
    environ = {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_RUNTIME_DIR": str(home / "runtime")}
    return Stage(make, environ=environ, roots=roots, theme=theme, clock=clock)


def watched(directory: Path, home: Path, clock: Callable[[], float] = standing) -> WatchedRun:
    """A run as screens get it, looked at in the moment that stands still."""
    return WatchedRun(directory, {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "runtime")}, clock)
