"""A comparison as sections of HTML: differences, runs × environments, and the tasks that got worse or better."""

from collections.abc import Sequence

from rollouthub.statistics import amounts
from rollouthub.statistics.amounts import number, share
from rollouthub.views.markup import Markup, join, table, tag
from rollouthub.views.report import phrases
from rollouthub.views.report.conversation_html import transcript_html
from rollouthub.views.report.difference_charts import ForestRow, before_and_after, forest_plot
from rollouthub.views.report.phrases import figure
from rollouthub.views.report.report_facts import (
    ComparedFigures,
    ComparisonReport,
    MatrixCellFigures,
    MatrixFigures,
    RunChangesFigures,
    TaskChange,
)

_MARKS = {"better": ("▲", "good"), "worse": ("▼", "bad")}


def comparison_sections(found: ComparisonReport) -> Markup:
    """All sections of a comparison."""
    return join(
        _differences(found),
        _matrix(found.matrix) if found.matrix else None,
        [_changes(each, found, place) for place, each in enumerate(found.changes) if each.counts],
        _costs(found) if found.standings else None,
    )


def _differences(found: ComparisonReport) -> Markup:
    rows = [
        [
            each.label,
            f"{each.scored:,}/{each.rollouts:,}",
            figure(each.mean_reward),
            share(each.pass_rate),
            phrases.signed(each.difference),
        ]
        for each in found.standings
    ]
    words = (
        f"On {amounts.count(found.common_tasks, 'common task')}. Mean reward and pass rate are over scored rollouts. A "
        "difference is the mean of the differences to the first run task by task, each task counted once: where "
        "samples have no score, it is not the difference of the means."
    )
    remarks = [tag("p", remark, class_="notice warn") for remark in found.remarks]
    if not rows:
        return tag("section", tag("h2", "Differences"), _forest(found), remarks)
    said = table(["run", "scored", "mean reward", "pass rate", "difference"], rows)
    return tag("section", tag("h2", "Differences"), tag("p", words, class_="soft"), _forest(found), said, remarks)


def _forest(found: ComparisonReport) -> Markup | None:
    """Differences of mean reward to the first run, overall or environment by environment."""
    rows: list[ForestRow] = []
    if found.matrix is None:
        return None
    several = len(found.matrix.environments) > 1
    for row in found.matrix.rows[1:]:
        cells = list(zip(found.matrix.environments, row.cells, strict=True))
        if several and row.overall is not None:
            cells.append(("all", row.overall))
        for name, cell in cells:
            difference = None if cell is None else cell.difference
            if cell is None or difference is None or difference.value is None:
                continue
            label = f"{row.label} · {name}" if several else row.label
            rows.append(ForestRow(label, difference.value, difference.low, difference.high, cell.verdict))
    if not rows:
        return None
    first = found.matrix.rows[0].label
    words = (
        f"Mean reward minus that of {first}, with 95 % intervals; left is worse, right is better. Coloured where it is "
        f"significant after the correction for {amounts.count(found.matrix.tests, 'test')} (Holm)."
    )
    return join(forest_plot("Differences of mean reward", rows), tag("p", words, class_="soft small"))


def _matrix(found: MatrixFigures) -> Markup | None:
    if len(found.environments) < 2 and len(found.rows) < 3:
        return None
    has_overall = any(row.overall is not None for row in found.rows)
    titles = ["run", *found.environments, *(["all"] if has_overall else [])]
    rows = [[row.label, *map(_cell, row.cells), *([_cell(row.overall)] if has_overall else [])] for row in found.rows]
    words = (
        "Mean reward with its 95 % interval on the tasks that all runs of an environment played; below it, the "
        "difference to the first run, and p corrected for all tests of this table (Holm)."
    )
    return tag("section", tag("h2", "Runs × environments"), table(titles, rows), tag("p", words, class_="soft small"))


def _cell(found: MatrixCellFigures | None) -> str:
    if found is None:
        return amounts.NONE
    parts = [tag("span", figure(found.mean_reward), class_="cell")]
    if found.difference is not None and found.difference.value is not None:
        mark, style = _MARKS.get(found.verdict, ("", "soft"))
        words = f"{mark} {amounts.signed(found.difference.value)}, {phrases.corrected(found.adjusted_p)}".strip()
        parts.append(tag("span", words, class_=f"cell small {style}"))
    return join(parts)


def _changes(found: RunChangesFigures, whole: ComparisonReport, place: int) -> Markup:
    first = whole.matrix.rows[0].label if whole.matrix else "the first run"
    counts = ", ".join(f"{count:,} {name}" for name, count in found.counts.items())
    head = tag("h2", f"{found.label}: task by task")
    words = (
        f"Compared with {first}: {counts}. Worse and better are significant after the correction for the number of "
        "tasks (Benjamini and Hochberg); lower and higher may be chance. ○ is the first run, ● the second."
    )
    parts = [tag("p", words, class_="soft")]
    for title, tasks in (("What got worse", found.worse), ("What got better", found.better)):
        if tasks:
            parts += [tag("h3", title), _task_table(tasks)]
    told = [task for task in found.worse if task.transcripts != (None, None)]
    if told:
        parts.append(tag("h3", "Both conversations"))
        parts += [_side_by_side(task, first, found.label, f"{place}-{at}-") for at, task in enumerate(told)]
    return tag("section", head, parts)


def _task_table(tasks: Sequence[TaskChange]) -> Markup:
    means = [mean for task in tasks for mean in (task.first.mean_reward, task.second.mean_reward) if mean is not None]
    low, high = min(0.0, *means), max(1.0, *means)
    several = len({task.environment for task in tasks}) > 1
    rows: list[list[str]] = []
    for task in tasks:
        one, other = task.first.mean_reward, task.second.mean_reward
        drawn = "" if one is None or other is None else before_and_after(one, other, low, high)
        rows.append(
            [
                f"{task.environment} · {task.task}" if several else task.task,
                drawn,
                f"{number(one)} of {task.first.scored:,}",
                f"{number(other)} of {task.second.scored:,}",
                amounts.signed(task.difference),
                "too few" if task.adjusted_p is None else amounts.p_value(task.adjusted_p),
                task.verdict,
            ]
        )
    return table(["task", "", "first", "second", "difference", "p corrected", ""], rows, words=2)


def _side_by_side(task: TaskChange, first: str, second: str, anchor: str) -> Markup:
    parts = [
        tag(
            "div",
            tag("h4", f"{label}, {which} sample"),
            transcript_html(told, f"{anchor}{which}-")
            if told is not None
            else tag("p", "No rollout was kept.", class_="soft"),
        )
        for label, which, told in ((first, "best", task.transcripts[0]), (second, "worst", task.transcripts[1]))
    ]
    head = tag("summary", tag("b", f"{task.environment} · {task.task}"), f" {task.verdict}")
    return tag("details", head, tag("div", parts, class_="two"), class_="task")


def _costs(found: ComparisonReport) -> Markup:
    costs = [_cost_row(each, is_full=found.full_tasks is not None) for each in found.standings]
    titles = ["run", "prompt tokens", "output tokens", "p50", "p95", "$ each"]
    if found.full_tasks is not None:
        titles += [f"$ all {found.full_tasks:,}", f"time all {found.full_tasks:,}"]
    return tag("section", tag("h2", "What a rollout takes"), table(titles, costs))


def _cost_row(each: ComparedFigures, *, is_full: bool) -> list[str]:
    row = [
        each.label,
        amounts.size(each.prompt_tokens),
        amounts.size(each.output_tokens),
        amounts.seconds(each.seconds_p50),
        amounts.seconds(each.seconds_p95),
        amounts.dollars(each.cost),
    ]
    return [*row, amounts.dollars(each.projected_cost), amounts.seconds(each.projected_seconds)] if is_full else row
