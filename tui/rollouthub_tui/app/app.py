"""The Textual app of `hub watch`: its screens, themes and stored settings."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, cast

from textual.app import App, SystemCommand
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.events import Event, Key, Paste
from textual.screen import Screen
from textual.widgets import Input
from textual.worker import WorkerFailed

from rollouthub.live.follow import RolloutList
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain
from rollouthub_tui.app.command_palette import Palette, RunCommands, ScreenCommands, ThemeCommands
from rollouthub_tui.app.themes import ANSI_DARK, ANSI_LIGHT, DARK, LIGHT, other
from rollouthub_tui.app.type_ahead import TypeAhead
from rollouthub_tui.crash_message import breakage
from rollouthub_tui.screens.help import HelpScreen
from rollouthub_tui.screens.steering_screen import LONGEST_COPY
from rollouthub_tui.settings import load_settings, save_settings

_SAVE_SECONDS = 5.0
_PARENT_SECONDS = 2.0
_LEAVE, _LEAVING_SECONDS = "ctrl+q", 1.0


class WatchApp(App[None]):
    """The app of `hub watch`: shows the runs of this machine, a run, or a rollout."""

    TITLE = "hub watch"
    CSS_PATH = Path(__file__).with_name("watch.tcss")
    COMMANDS = {ScreenCommands, RunCommands, ThemeCommands}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "go_back(True)", "Back, or leave", show=False),
        Binding("escape,h,backspace", "go_back", "Back", show=False),
        Binding("T", "toggle_light", "Dark or light", show=False),
        Binding(_LEAVE, "leave", "Leave", show=False, priority=True),
        Binding("ctrl+c", "copy_or_leave", "Copy what is selected, or leave", show=False, priority=True),
    ]

    def __init__(
        self,
        roots: Sequence[Path],
        environ: Mapping[str, str],
        *,
        run: Path | None = None,
        reviews: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`run` is the directory of a run to open at once, with `reviews` at what needs a review; without it, the runs
        are listed.
        """
        super().__init__()
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.ansi_theme_dark, self.ansi_theme_light = ANSI_DARK, ANSI_LIGHT
        self.roots, self.environ, self.clock = tuple(roots), environ, clock
        self.settings = load_settings(environ)
        self.problem: str | None = None
        """The message to print after a crash; None as long as there was none."""
        self._loaded = self.settings.model_copy()
        self._first, self._reviews = run, reviews
        self._server = os.getppid()
        self.type_ahead = TypeAhead(self, super().on_event, urgent=self._bindings.key_to_bindings)

    def get_driver_class(self) -> type[Driver]:
        """Textual's driver; on a terminal, one that keeps the app able to quit when the terminal is gone."""
        chosen = super().get_driver_class()
        if chosen.__name__ != "LinuxDriver":  # the browser's
            return chosen
        from rollouthub_tui.app.driver import LastingDriver

        return LastingDriver

    def on_mount(self) -> None:
        """Show the list of runs, and on top of it the requested run."""
        # Each screen is loaded when it is first opened: the first one is there sooner.
        from rollouthub_tui.screens.runs import RunsScreen

        self.theme = self.settings.theme if self.settings.theme in self.available_themes else DARK.name
        self.set_interval(_SAVE_SECONDS, self._remember)
        if self.is_web:
            self.set_interval(_PARENT_SECONDS, self._leave_with_server)
        self.push_screen(RunsScreen())
        if self._first is not None:
            self._open_run(self._first, reviews=self._reviews)

    async def on_event(self, event: Event) -> None:
        """Pass keys to the type-ahead queue, so that each waits until the key before it is handled."""
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            if isinstance(event, Key) and event.key == _LEAVE:
                self.set_timer(_LEAVING_SECONDS, self.exit)  # however much was typed before it
            await self.type_ahead.take(event)
        else:
            await super().on_event(event)

    def on_unmount(self) -> None:
        """Save the settings."""
        self._remember()

    def _remember(self) -> None:
        if self.settings.theme != self.theme:
            self.settings.theme = self.theme
        save_settings(self.settings, self.environ, since=self._loaded)
        self._loaded = self.settings.model_copy()

    def _leave_with_server(self) -> None:
        """In the browser: quit if the server process is gone, as it can no longer report that the tab is closed."""
        if os.getppid() != self._server:
            self.exit()

    def open_run(self, directory: Path) -> None:
        """Show a run."""
        self._open_run(directory)

    def _open_run(self, directory: Path, *, reviews: bool = False) -> None:
        from rollouthub_tui.screens.run import RunScreen

        self.push_screen(RunScreen(WatchedRun(directory, self.environ, self.clock), reviews=reviews))

    def open_rollout(self, run: WatchedRun, rollout_id: str, attempt: int, among: RolloutList | None = None) -> None:
        """Show one rollout, finished or in flight."""
        from rollouthub_tui.screens.rollout import RolloutScreen

        self.push_screen(RolloutScreen(run, rollout_id, attempt, among))

    def open_pair(self, run: WatchedRun, first: int, second: int) -> None:
        """Show two rollouts side by side."""
        from rollouthub_tui.screens.pair import PairScreen

        self.push_screen(PairScreen(run, first, second))

    def open_comparison(self, first: Path, second: Path) -> None:
        """Compare two runs."""
        from rollouthub_tui.screens.compare import CompareScreen

        self.push_screen(CompareScreen(first, second))

    def pop_screen(self) -> AwaitComplete:
        """Close the top screen and cancel its workers, which would otherwise use widgets being removed."""
        for node in self.screen.walk_children(with_self=True):
            self.workers.cancel_node(node)  # pyright: ignore[reportUnknownMemberType]  # Textual leaves its type open
        return super().pop_screen()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """No commands: Textual's own that make sense here are bound to keys."""
        return ()

    def action_help(self) -> None:
        """Show what the keys of the screen do."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    def action_command_palette(self) -> None:
        """Open the command palette."""
        if not Palette.is_open(cast("App[object]", self)):
            self.push_screen(Palette())

    def action_go_back(self, leaves: bool = False) -> None:
        """Close the top screen; on the first one, quit if `leaves`."""
        # Below the first of ours lies Textual's own, which is empty.
        if len(self.screen_stack) > 2:
            self.pop_screen()
        elif leaves:
            self.exit()

    def action_leave(self) -> None:
        """Quit, from any screen."""
        self.exit()

    def action_copy_or_leave(self) -> None:
        """Ctrl-C: copy the selected text; without a selection, quit."""
        focused = self.focused
        selected = focused.selected_text if isinstance(focused, Input) else self.screen.get_selected_text()
        if selected:
            self.copy_to_clipboard(plain(selected, LONGEST_COPY))
        else:
            self.exit()

    def action_toggle_light(self) -> None:
        """Switch between the dark and the light theme."""
        self.theme = other(self.theme, is_dark=self.current_theme.dark)

    def _fatal_error(self) -> None:
        """Replace Textual's traceback of an uncaught exception by a short message, since it may contain text of
        agents.
        """
        error = self._exception
        if self.problem is None and error is not None:
            # A worker's own error says nothing of where it happened.
            cause = error.error if isinstance(error, WorkerFailed) else error
            self.problem = breakage(cause, self.environ)
        self._close_messages_no_wait()
