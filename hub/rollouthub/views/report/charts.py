"""The charts of a report; every figure of a chart is also in a table."""

from collections.abc import Iterable, Sequence

from rollouthub.statistics.amounts import of_all, share
from rollouthub.views.markup import Markup, join, table, tag
from rollouthub.views.report.phrases import ENDING_WORDS, KINDS, figure
from rollouthub.views.report.report_facts import Figure, RunReport
from rollouthub.views.report.svg_charts import COLOURS, Curve, CurvePoint, curves, histogram, shares

MOST_LINES = COLOURS


def k_charts(runs: Sequence[RunReport]) -> Markup | None:
    """Charts of pass@k and avg@k: one chart of both for one run, one chart each for several runs."""
    runs = [run for run in runs if run.at_k]
    if not runs or max(len(run.at_k) for run in runs) < 2:
        return None
    passing = [Curve(run.name, _points([(at.k, at.pass_at_k) for at in run.at_k])) for run in runs[:MOST_LINES]]
    average = [Curve(run.name, _points([(at.k, at.avg_at_k) for at in run.at_k])) for run in runs[:MOST_LINES]]
    passing = [line for line in passing if line.points]
    rows = [
        [
            *([run.name] if len(runs) > 1 else []),
            str(at.k),
            figure(at.pass_at_k, is_share=True),
            figure(at.avg_at_k),
            of_all((at.pass_at_k or at.avg_at_k).tasks, run.figures.tasks),
        ]
        for run in runs
        for at in run.at_k
    ]
    titles = [*(["run"] if len(runs) > 1 else []), "k", "pass@k (95 %)", "avg@k (95 %)", "tasks"]
    if len(runs) == 1:
        lines = [Curve("pass@k", passing[0].points)] if passing else []
        lines.append(Curve("avg@k", average[0].points))
        drawn = tag("div", curves("pass@k and avg@k", lines), _key([line.name for line in lines]))
        inner = tag("div", drawn, tag("div", table(titles, rows, words=0)), class_="two")
    else:
        pictures = [tag("div", tag("h3", "pass@k"), curves("pass@k", passing))] if passing else []
        pictures.append(tag("div", tag("h3", "avg@k"), curves("avg@k", average)))
        told = tag("details", tag("summary", "The figures"), table(titles, rows), class_="told")
        inner = join(tag("div", pictures, class_="two"), _key([line.name for line in average]), told)
    words = "pass@k: the chance that one of k samples passes. avg@k: their mean reward. Bars are 95 % intervals."
    if any(at.avg_at_k.tasks < run.figures.tasks for run in runs for at in run.at_k):
        words += " A task with fewer than k scored samples is left out at k: curves may rise or fall for that alone."
    if len(runs) > MOST_LINES:
        words += f" The first {MOST_LINES} runs are drawn; the table has all."
    return tag("section", tag("h2", "With k samples of a task"), inner, tag("p", words, class_="soft small"))


def _points(found: Sequence[tuple[int, Figure | None]]) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(k, each.value, each.low, each.high)
        for k, each in found
        if each is not None and each.value is not None
    )


def _key(names: Sequence[str]) -> Markup:
    items = [tag("li", tag("i", class_=f"c{place % COLOURS}"), name) for place, name in enumerate(names)]
    return tag("ul", items, class_="key")


def distribution_chart(run: RunReport) -> Markup | None:
    """The distribution of the rewards of scored rollouts."""
    if not run.rewards:
        return None
    total = sum(bar.count for bar in run.rewards)
    rows = [
        [
            f"{bar.low:.4g}" if bar.low == bar.high else f"{bar.low:.4g} to {bar.high:.4g}",
            f"{bar.count:,}",
            share(bar.count / total),
        ]
        for bar in run.rewards
    ]
    numbers = table(["reward", "rollouts", "share"], rows)
    told = numbers if len(rows) <= 8 else tag("details", tag("summary", "The figures"), numbers, class_="told")
    two = tag("div", tag("div", histogram("Rewards of scored rollouts", run.rewards)), tag("div", told), class_="two")
    alike = f"{run.figures.constant_groups:,} of {run.figures.tasks:,} tasks"
    words = f"{total:,} scored rollouts; in {alike}, all samples got the same reward."
    return tag("section", tag("h2", "Rewards"), two, tag("p", words, class_="soft small"))


def ending_parts(kinds: Iterable[tuple[str, int]], judged: int, passed: int, missing: int) -> list[tuple[str, int]]:
    """How rollouts ended, as parts of a bar: those that passed and those that did not are told apart."""
    ended = dict(kinds)
    scored = ended.get("scored", 0)
    parts = [("passed", passed), ("not_passed", judged - passed), ("scored", scored - judged)]
    parts += [(kind, ended.get(kind, 0)) for kind in KINDS if kind not in ("scored", "missing")]
    return [(name, number) for name, number in (*parts, ("missing", missing)) if number > 0]


def outcome_strip(run: RunReport) -> Markup:
    """How the planned rollouts ended, as one bar."""
    found = run.figures
    parts = ending_parts(found.kinds.items(), found.judged, found.passed, max(0, found.planned - found.played))
    items = [tag("li", tag("i", class_=kind), f"{number:,} {ENDING_WORDS[kind]}") for kind, number in parts]
    return join(shares("How rollouts ended", parts), tag("ul", items, class_="key"))
