"""What the trainer that learnt from a run logged of its steps, as a chart and a table of a report."""

from collections.abc import Sequence

from rollouthub.statistics import amounts
from rollouthub.statistics.spacing import evenly_spaced
from rollouthub.telemetry.trackers.trainer_logs import canonical_figure
from rollouthub.views.markup import Markup, table, tag
from rollouthub.views.report.report_facts import LoggedFigures, RunReport
from rollouthub.views.report.svg_charts import steps_chart

MOST_STEPS = 12
"""Steps in the table; the chart has all."""
_MOST_COLUMNS = 6


def trainer_rows(steps: Sequence[LoggedFigures]) -> tuple[list[str], list[list[str]]]:
    """The titles and the rows of a table of steps: the first figures of the latest step, the loss before all others."""
    names = sorted(steps[-1].figures, key=lambda name: canonical_figure(name) != "loss")[:_MOST_COLUMNS]
    shown = evenly_spaced(steps, MOST_STEPS)
    return ["step", *names], [
        [f"{step.step:,}", *(_number(step.figures.get(name)) for name in names)] for step in shown
    ]


def trainer(run: RunReport) -> Markup | None:
    """The section on the trainer; None if it logged nothing."""
    if not run.trainer:
        return None
    titles, rows = trainer_rows(run.trainer)
    losses = [
        (step.step, value)
        for step in run.trainer
        for name, value in step.figures.items()
        if value is not None and canonical_figure(name) == "loss"
    ]
    drawn = steps_chart("Loss by step", losses) if len(losses) > 1 else None
    inner = tag("div", tag("div", drawn), tag("div", table(titles, rows, words=0)), class_="two" if drawn else None)
    return tag("section", tag("h2", "The trainer's loss" if losses else "The trainer"), inner)


def _number(value: float | None) -> str:
    return amounts.NONE if value is None else f"{value:.4g}"
