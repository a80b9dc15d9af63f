"""The overview's panels, each a drawing of what the run's feed keeps."""

from typing import ClassVar

from rich.text import Text

from rollouthub.live.follow.run_figures import RunTotals, figures_of
from rollouthub.views.terminal.ending_bar import outcome_bar, outcome_legend, tally
from rollouthub.views.terminal.environment_lines import environment_table
from rollouthub.views.terminal.headline import figure_table
from rollouthub.views.terminal.reward_bars import reward_histogram
from rollouthub.views.terminal.stage_bar import flight_line
from rollouthub.views.terminal.stage_table import stage_table
from rollouthub.views.terminal.text_fit import stack
from rollouthub.views.terminal.timeline_curve import timeline_chart
from rollouthub_tui.watched_run import WatchedRun
from rollouthub_tui.widgets.overview.cached_panel import Drawn

_ROOMY = 8
"""Lines from which every ending has one of its own."""


class FiguresPanel(Drawn):
    """Means, coverage, tokens, cost."""

    def head(self, figures: RunTotals) -> None:
        """Show figures that are known before the run is read."""
        self.replace(figure_table(figures, *self.content_size))

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """The headline."""
        return figure_table(figures_of(run.feed.counts, run.feed.info.planned), width, height)


class OutcomesPanel(Drawn):
    """How rollouts ended, why agents stopped, what broke; and what is in flight."""

    def state(self, run: WatchedRun) -> object:
        """The states of those in flight count, too."""
        states = tuple(live.state for live in run.feed.live)
        return super().state(run), states, run.feed.info.status, run.view and run.view.in_flight

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """A bar, its legend, and tallies."""
        counts, live = run.feed.counts, run.feed.live
        is_on = run.feed.info.status == "running"
        legend = outcome_legend(counts.kinds, width, max(1, min(5, height - 3)), zeros=height >= _ROOMY)
        lines = [outcome_bar(counts.kinds, width), *legend.split("\n")]
        if is_on and live:
            total = None if run.view is None else run.view.in_flight
            lines.append(flight_line(live, width, 1, total=total))
        most = max(1, (height - len(lines)) // 2)
        lines += [tally("stopped", counts.stops, width, most), tally("faults", counts.faults, width, most)]
        return stack(stack(lines).split("\n")[:height])


class RewardsPanel(Drawn):
    """How rewards are distributed."""

    NEEDS = "histogram"

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """Bars."""
        return reward_histogram(run.feed.histogram.bins, width, height)


class TimelinePanel(Drawn):
    """How reward, pass rate and speed went."""

    NEEDS = "timeline"

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """Curves."""
        return timeline_chart(run.feed.timeline.points, width, height)


class StagesPanel(Drawn):
    """How long stages take."""

    NEEDS = "stages"

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """A table."""
        return stage_table(run.feed.stages.quantiles(), width, height)


class EnvironmentsPanel(Drawn):
    """A line for each environment."""

    NEEDS = "environments"
    MOST: ClassVar[int] = 12

    def rows(self, run: WatchedRun, width: int) -> int:
        """A head, and a line each."""
        return 1 + max(1, min(self.MOST, len(run.feed.environments)))

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """A table."""
        return environment_table(run.feed.environments.all(), width, max(height, self.rows(run, width)))
