"""The overview of a run: one column of panels on a narrow terminal, a grid on a wide one."""

from collections.abc import Container, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll

from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.widgets.overview.cached_panel import Drawn
from rollouthub_tui.widgets.overview.panels import (
    EnvironmentsPanel,
    FiguresPanel,
    OutcomesPanel,
    RewardsPanel,
    StagesPanel,
    TimelinePanel,
)

_MEDIUM, _WIDE, _HIGH = 100, 150, 36
"""Widths in cells from which there are two and three columns; height in lines from which the grid fills the screen."""

_TURNS: Mapping[str, Container[int]] = {
    "figures": (0, 2),
    "outcomes": (2,),
    "timeline": (1,),
    "rewards": (3,),
    "stages": (3,),
    "environments": (3,),
}
"""For each panel of a live run, the ticks out of four in which it is updated, so that no tick takes long."""
_ROUND = 4


class OverviewPane(VerticalScroll):
    """All panels of a run, the most important first; the pane scrolls if they do not fit."""

    DEFAULT_CSS = """
    OverviewPane {
        height: 1fr; scrollbar-size-vertical: 1;
        Grid { height: auto; }
        .drawn { width: 1fr; height: 100%; border: round $foreground 25%; padding: 0 1; }
        .drawn { border-title-color: $text-accent; border-title-style: bold; }
    }
    OverviewPane.-narrow {
        Grid { layout: vertical; }
        .drawn { border: none; border-top: solid $foreground 25%; }
        #figures { height: 6; } #outcomes { height: 6; } #timeline { height: 10; }
        #rewards { height: 9; } #stages { height: 10; } #environments { height: 4; }
    }
    OverviewPane.-medium {
        Grid { grid-size: 2; grid-rows: 12 12 11 7; }
        #timeline { column-span: 2; } #environments { column-span: 2; }
    }
    OverviewPane.-wide {
        Grid { grid-size: 3; grid-rows: 12 22 12; }
        #outcomes { column-span: 2; } #timeline { column-span: 2; } #environments { column-span: 2; }
    }
    OverviewPane.-medium.-high Grid { height: 100%; grid-rows: 12 1fr 11 7; }
    OverviewPane.-wide.-high Grid { height: 100%; grid-rows: 12 1fr 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", "Scroll down", show=False),
        Binding("k,up", "scroll_up", "Scroll up", show=False),
        Binding("g,home", "scroll_home", "To the top", show=False),
        Binding("G,end", "scroll_end", "To the end", show=False),
        Binding("ctrl+d,pagedown", "page_down", "Page down", show=False),
        Binding("ctrl+u,pageup", "page_up", "Page up", show=False),
    ]

    def compose(self) -> ComposeResult:
        """The panels, the most important first."""
        with Grid():
            yield FiguresPanel("Figures", id="figures")
            yield OutcomesPanel("Endings", id="outcomes")
            yield TimelinePanel("Over the run", id="timeline")
            yield RewardsPanel("Rewards", id="rewards")
            yield StagesPanel("Seconds by stage", id="stages")
            yield EnvironmentsPanel("Environments", id="environments")

    def on_mount(self) -> None:
        """Collect the panels, as they are needed four times a second."""
        self._panels = list(self.query(Drawn))
        self._turn = 0

    def show_made(self, run: WatchedRun, made: Container[str]) -> None:
        """Update the panels: of a live run, the figures at each tick and the other panels in turn.

        `made` names the feed's sets of figures that are computed already.
        """
        plays = run.feed.info.status == "running"
        self._turn = (self._turn + 1) % _ROUND
        for panel in self._panels:
            is_due = not plays or not panel.is_drawn or self._turn in _TURNS[panel.id or ""]
            if is_due and panel.NEEDS in made:
                panel.show(run)

    def on_resize(self) -> None:
        """Choose one, two or three columns."""
        width, height = self.size
        is_narrow = width < _MEDIUM
        self.set_class(is_narrow, "-narrow")
        self.set_class(_MEDIUM <= width < _WIDE, "-medium")
        self.set_class(width >= _WIDE, "-wide")
        self.set_class(height >= _HIGH, "-high")
        for panel in self._panels:
            is_as_high = isinstance(panel, EnvironmentsPanel) and is_narrow
            panel.set_class(is_as_high, "-as-high")
            if not is_as_high:
                panel.styles.clear_rule("height")
