"""The panels of the overview, each a drawing of some of the feed's figures."""

from typing import ClassVar

from rich.text import Text

from rollouthub.live.follow.run_figures import RunTotals, figures_of
from rollouthub.live.follow.task_summary import TaskSummary
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.views.terminal.ending_bar import outcome_bar, outcome_legend, tally
from rollouthub.views.terminal.environment_lines import environment_table
from rollouthub.views.terminal.headline import figure_table
from rollouthub.views.terminal.reward_bars import reward_histogram
from rollouthub.views.terminal.stage_bar import flight_line
from rollouthub.views.terminal.stage_table import stage_table
from rollouthub.views.terminal.text_fit import stack
from rollouthub.views.terminal.timeline_curve import timeline_chart
from rollouthub_tui.widgets.overview.cached_panel import Drawn

_MOST_LIVE, _MOST_ENDED = 4_000, 50_000
"""Most attempts of a run for which figures over tasks are computed, so that no frame waits for them."""
_ROOMY = 8
"""Height in lines from which every kind of outcome has its own line."""


class FiguresPanel(Drawn):
    """Means with intervals, pass@k, number of scored samples, tokens, cost."""

    def __init__(self, title: str, *, id: str) -> None:
        super().__init__(title, id=id)
        self._summary = TaskSummary(_MOST_LIVE, _MOST_ENDED)

    def head(self, figures: RunTotals) -> None:
        """Show figures that are known before the run is read."""
        self.replace(figure_table(figures, *self.content_size))

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """The headline figures."""
        return figure_table(
            figures_of(run.feed.counts, run.feed.info.planned), width, height, self._summary.of(run.feed)
        )


class OutcomesPanel(Drawn):
    """The kinds of outcomes, stop reasons and faults, and the rollouts in flight."""

    def state(self, run: WatchedRun) -> object:
        """As in `Drawn`, with the states of the rollouts in flight."""
        states = tuple(live.state for live in run.feed.live)
        return super().state(run), states, run.feed.info.status, run.view and run.view.in_flight

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """A bar with its legend, and counts."""
        counts, live = run.feed.counts, run.feed.live
        is_on = run.feed.info.status == "running"
        judged, passed, rows = counts.judged, counts.passed, max(1, min(5, height - 3))
        zeros = height >= _ROOMY
        legend = outcome_legend(counts.kinds, width, rows, zeros=zeros, judged=judged, passed=passed)
        bar = outcome_bar(counts.kinds, width, judged=judged, passed=passed)
        lines = [bar, *legend.split("\n")]
        if is_on and live:
            total = None if run.view is None else run.view.in_flight
            lines.append(flight_line(live, width, 1, total=total))
        most = max(1, (height - len(lines)) // 2)
        lines += [tally("stopped", counts.stops, width, most), tally("faults", counts.faults, width, most)]
        return stack(stack(lines).split("\n")[:height])


class RewardsPanel(Drawn):
    """The distribution of rewards."""

    NEEDS = "histogram"

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """A histogram."""
        return reward_histogram(run.feed.histogram.bins, width, height)


class TimelinePanel(Drawn):
    """Reward, the trainer's loss, pass rate and speed over time."""

    NEEDS = "timeline"

    def state(self, run: WatchedRun) -> object:
        """As in `Drawn`, with what the trainer logged."""
        steps = run.feed.trainer.steps
        return super().state(run), len(steps), steps[-1:]

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """Curves."""
        timeline, losses = run.feed.timeline, run.feed.trainer.losses
        return timeline_chart(timeline.points, width, height, losses, (timeline.lowest, timeline.highest))


class StagesPanel(Drawn):
    """Durations of the stages."""

    NEEDS = "stages"

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """A table of the stages."""
        found, is_exact = run.feed.stages.shown(is_live=run.feed.info.status == "running")
        return stage_table(found, width, height, is_exact=is_exact)


class EnvironmentsPanel(Drawn):
    """Results by environment."""

    NEEDS = "environments"
    MOST: ClassVar[int] = 12

    def rows(self, run: WatchedRun, width: int) -> int:
        """A header and one line per environment."""
        return 1 + max(1, min(self.MOST, len(run.feed.environments)))

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """A table of the environments."""
        return environment_table(run.feed.environments.all(), width, max(height, self.rows(run, width)))
