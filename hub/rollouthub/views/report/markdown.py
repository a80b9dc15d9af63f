"""A report as Markdown, for pull requests: short, and text of agents and tasks cannot act as markup in it."""

import re
from collections.abc import Iterable, Iterator

from rollouthub.rollout import Outcome
from rollouthub.statistics import amounts
from rollouthub.statistics.amounts import number, share
from rollouthub.text import one_line
from rollouthub.views.report import phrases
from rollouthub.views.report.notes_section import named, said_of
from rollouthub.views.report.phrases import figure
from rollouthub.views.report.provenance import facts
from rollouthub.views.report.report_facts import (
    ComparisonReport,
    MatrixCellFigures,
    MatrixFigures,
    Report,
    ReportFigures,
    RunChangesFigures,
    RunReport,
)
from rollouthub.views.report.trainer_section import trainer_rows
from rollouthub.views.terminal.run_status import standing

MOST_GROUPS = 10
MOST_FAULTS = 10
MOST_NOTED = 10
CELL_CHARACTERS = 300
_RUNS_OF_TICKS = re.compile("`+")


class MarkdownReport:
    """The report as one Markdown document."""

    endings = (".md", ".markdown")

    def render(self, report: Report) -> str:
        """The whole document."""
        return markdown_report(report)


def markdown_report(report: Report) -> str:
    """The whole Markdown document."""
    parts: list[str] = []
    if report.comparison:
        parts += _comparison(report.comparison)
    if len(report.runs) > 1:
        parts += _side_by_side(report.runs)
    for run in report.runs:
        parts += _run(run)
    made = f"rollouthub {code(report.hub_version)}, {amounts.moment(report.made_at)}"
    parts += ["", f"Intervals are 95 %, over tasks; unscored is never zero. Made by {made}.", ""]
    return "\n".join(parts)


def code(text: str) -> str:
    """The text as inline code, so that nothing in it acts as markup, a mention or a link."""
    flat = one_line(text, CELL_CHARACTERS)
    if not flat:
        return amounts.NONE
    ticks = "`" * (max(map(len, _RUNS_OF_TICKS.findall(flat)), default=0) + 1)
    room = " " if flat[0] == "`" or flat[-1] == "`" else ""
    # A bar would end the cell of a table, within code too. A backslash before it would not be taken away.
    return f"{ticks}{room}{flat.replace('|', '¦')}{room}{ticks}"


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]], *, words: int = 1) -> Iterator[str]:
    heads = list(titles)
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join(' --- ' if place < words else ' ---: ' for place in range(len(heads)))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _run(run: RunReport) -> Iterator[str]:
    yield f"## {code(phrases.heading(run))}"
    yield ""
    yield f"Run {code(run.name)}, {standing(run.status).word}. {code(phrases.sentence(run))}"
    yield ""
    for notice in run.notices:
        yield f"> {code(notice)}"
        yield ""
    if run.figures.played:
        yield from _summary(run)
    yield "### What made these numbers"
    yield ""
    rows = ([term.strip(), ", ".join(map(code, said))] for term, said in facts(run))
    yield from _table(("", ""), rows, words=2)
    if run.figures.played and run.trainer:
        yield "### The trainer"
        yield ""
        titles, rows = trainer_rows(run.trainer)
        yield from _table([code(title) for title in titles], rows, words=0)
    if run.figures.played:
        yield from _endings(run)
        yield from _tasks(run)
        yield from _notes(run)
    yield "### Play it again"
    yield ""
    yield from [code(line) for line in run.commands] or [phrases.NOT_AGAIN]
    yield ""


def _summary(run: RunReport) -> Iterator[str]:
    found = [*run.environments, run.figures] if len(run.environments) > 1 else [run.figures]
    titles = ("", "tasks", "scored", "coverage", "mean reward", "strict", "pass rate")
    yield from _table(titles, [[_name(each, run), *_figures(each)] for each in found])
    if len(run.at_k) > 1:
        rows = [
            [
                str(at.k),
                figure(at.pass_at_k, is_share=True),
                figure(at.avg_at_k),
                amounts.of_all((at.pass_at_k or at.avg_at_k).tasks, run.figures.tasks),
            ]
            for at in run.at_k
        ]
        yield from _table(("k", "pass@k", "avg@k", "tasks"), rows, words=0)


def _name(found: ReportFigures, run: RunReport) -> str:
    return code(found.name) if found is not run.figures else "all"


def _figures(found: ReportFigures) -> list[str]:
    return [
        f"{found.tasks:,}",
        f"{found.scored:,}/{found.planned:,}",
        share(found.coverage),
        figure(found.mean_reward),
        figure(found.mean_reward_strict),
        figure(found.pass_rate, is_share=True),
    ]


def _endings(run: RunReport) -> Iterator[str]:
    yield "### How rollouts ended"
    yield ""
    rows = [[code(name), phrases.KINDS[Outcome(name).kind], f"{count:,}"] for name, count in run.outcomes.items()]
    if missing := max(0, run.figures.planned - run.figures.played):
        rows.append([amounts.NONE, phrases.KINDS["missing"], f"{missing:,}"])
    yield from _table(("outcome", "kind", "rollouts"), rows, words=2)
    if run.faults:
        faults = [[code(each.name), f"{each.attempts:,}", code(each.example)] for each in run.faults[:MOST_FAULTS]]
        yield from _table(("fault", "attempts", "the latest said"), faults)
    rows = [[name, *map(amounts.seconds, (at.p50, at.p95, at.p99))] for name, at in run.stages.items() if at.p99 > 0]
    yield from _table(("stage", "p50", "p95", "p99"), rows)
    usage = [
        [
            code(each.role) if each.role else "the agent's model",
            f"{each.prompt_tokens:,}",
            f"{each.output_tokens:,}",
            amounts.dollars(each.cost),
        ]
        for each in run.usage
    ]
    yield from _table(("asked by", "prompt tokens", "output tokens", "cost"), usage)


def _tasks(run: RunReport) -> Iterator[str]:
    yield "### Hardest tasks"
    yield ""
    rows = [
        [code(each.task), f"{each.scored:,}/{each.samples:,}", number(each.mean_reward), number(each.deviation)]
        for each in run.groups[:MOST_GROUPS]
    ]
    yield from _table(("task", "scored", "mean reward", "std of rewards"), rows)
    transcripts = [
        [each.chosen, code(each.task), number(each.reward), code(each.rollout_id)] for each in run.transcripts
    ]
    if transcripts:
        yield from _table(("", "task", "reward", "rollout"), transcripts, words=2)


def _notes(run: RunReport) -> Iterator[str]:
    if not run.noted:
        return
    yield "### Notes"
    yield ""
    shown = run.noted[:MOST_NOTED]
    rows = [[code(named(each)), code(each.task), code("; ".join(said_of(each))), number(each.reward)] for each in shown]
    yield from _table(("rollout", "task", "noted", "reward"), rows, words=3)
    if rest := len(run.noted) + run.noted_left_out - len(shown):
        yield f"{amounts.count(rest, 'more rollout')} with notes."
        yield ""


def _side_by_side(runs: Iterable[RunReport]) -> Iterator[str]:
    yield "## Side by side"
    yield ""
    titles = ("run", "model", "status", "tasks", "scored", "coverage", "mean reward", "strict", "pass rate")
    rows = [
        [code(run.name), code(", ".join(run.identity.models)), standing(run.status).word, *_figures(run.figures)]
        for run in runs
    ]
    yield from _table(titles, rows, words=3)


def _comparison(found: ComparisonReport) -> Iterator[str]:
    yield "## Differences"
    yield ""
    yield f"On {found.common_tasks:,} common tasks; differences are to the first, paired by task."
    yield ""
    rows = [
        [
            code(each.label),
            f"{each.scored:,}/{each.rollouts:,}",
            figure(each.mean_reward),
            share(each.pass_rate),
            phrases.signed(each.difference) or amounts.NONE,
            amounts.dollars(each.cost),
            amounts.seconds(each.seconds_p50),
        ]
        for each in found.standings
    ]
    yield from _table(("model", "scored", "mean reward", "pass rate", "difference", "$ each", "p50"), rows)
    for remark in found.remarks:
        yield f"> {code(remark)}"
        yield ""
    if found.matrix is not None:
        yield from _matrix(found.matrix)
    for changes in found.changes:
        yield from _changes(changes)


def _changes(found: RunChangesFigures) -> Iterator[str]:
    tasks = [*found.worse[:MOST_GROUPS], *found.better[:MOST_GROUPS]]
    if not tasks:
        return
    yield f"### {code(found.label)}: {', '.join(f'{count:,} {name}' for name, count in found.counts.items())}"
    yield ""
    rows = [
        [
            code(task.task),
            f"{number(task.first.mean_reward)} of {task.first.scored:,}",
            f"{number(task.second.mean_reward)} of {task.second.scored:,}",
            amounts.signed(task.difference),
            amounts.p_value(task.adjusted_p),
            task.verdict,
        ]
        for task in tasks
    ]
    yield from _table(("task", "first", "second", "difference", "p corrected", ""), rows)


def _matrix(found: MatrixFigures) -> Iterator[str]:
    if len(found.environments) < 2 and len(found.rows) < 3:
        return
    yield "### Runs × environments"
    yield ""
    rows = [[code(row.label), *map(_cell, (*row.cells, row.overall))] for row in found.rows]
    yield from _table(("run", *map(code, found.environments), "all"), rows)


def _cell(found: MatrixCellFigures | None) -> str:
    if found is None:
        return amounts.NONE
    said = figure(found.mean_reward)
    if found.difference is None or found.difference.value is None:
        return said
    return f"{said}, {amounts.signed(found.difference.value)} ({phrases.corrected(found.adjusted_p)})"
