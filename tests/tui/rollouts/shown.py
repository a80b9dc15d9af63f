"""A screen that holds a pane of a run, as a run's screen does, and notes what the pane asks of it."""

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.widgets.rollouts.live_table import LiveTable
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from rollouthub_tui.widgets.rollouts.status_line import Standing
from rollouthub_tui.widgets.rollouts.tasks_table import TasksPane
from tests.tui.stage import Stage, stage


class PaneScreen(Screen[None]):
    """Shows a pane when it is told to: no timer is in a test's way."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back")]

    def __init__(self, run: WatchedRun, pane: RolloutsPane | TasksPane) -> None:
        super().__init__()
        self.run, self.pane = run, pane
        self.backs = 0
        self.asked: list[str | None] = []

    def compose(self) -> ComposeResult:
        """The pane alone."""
        yield self.pane

    def on_mount(self) -> None:
        """Show the run as it is."""
        self.tick()
        self.pane.focus()

    def tick(self) -> None:
        """Read what is new, and show it."""
        self.run.refresh()
        self.pane.show(self.run)

    def action_back(self) -> None:
        """Note that escape came through."""
        self.backs += 1

    def on_rollouts_pane_by_task(self, event: RolloutsPane.ByTask) -> None:
        """Note which task was asked for."""
        self.asked.append(event.group_id)

    def on_tasks_pane_chosen(self, event: TasksPane.Chosen) -> None:
        """Note which task was chosen."""
        self.asked.append(event.group_id)


def app_for(run: WatchedRun, pane: RolloutsPane | TasksPane, home: Path) -> tuple[Stage, PaneScreen]:
    """An app that shows a pane of a run, and its screen."""
    screen = PaneScreen(run, pane)
    return stage(lambda: screen, home), screen


def said(pane: RolloutsPane | TasksPane) -> str:
    """What stands above the table, on one line."""
    return pane.query_one(Standing).text.replace("\n", " · ")


def problem(pane: RolloutsPane) -> str:
    """What is said to be wrong with what is typed."""
    shown = pane.query_one("#problem", Static)
    return str(shown.content) if shown.display else ""


def lines(table: LiveTable) -> list[str]:
    """What the table shows, line by line."""
    return [table.render_line(y).text for y in range(table.size.height)]
