"""The HTML of a report: one file with everything in it, without scripts and requests."""

import base64
import hashlib
from collections.abc import Sequence

from rollouthub.statistics import amounts
from rollouthub.statistics.amounts import moment, number, of_all, share
from rollouthub.statistics.pass_at_k import is_headline
from rollouthub.views.markup import Markup, join, table, tag
from rollouthub.views.report import phrases
from rollouthub.views.report.charts import distribution_chart, k_charts, outcome_strip
from rollouthub.views.report.comparison_html import comparison_sections
from rollouthub.views.report.conversation_html import transcripts
from rollouthub.views.report.notes_section import notes
from rollouthub.views.report.phrases import figure
from rollouthub.views.report.provenance import provenance, settings
from rollouthub.views.report.report_facts import Report, ReportFigures, RunReport
from rollouthub.views.report.sections import faults, groups, outcomes, reproducing, stages, usage
from rollouthub.views.report.style import STYLE
from rollouthub.views.report.trainer_section import trainer
from rollouthub.views.terminal.run_status import standing

_STYLE_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; img-src data:; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The page's content security policy: no script, no request and no other style, should escaping ever fail."""
_STATUS = {"finished": "good", "running": "warn", "interrupted": "warn", "dead": "bad", "failed": "bad"}


class HtmlReport:
    """The report as one HTML page."""

    endings = (".html", ".htm")

    def render(self, report: Report) -> str:
        """The whole page."""
        return html_report(report)


def html_report(report: Report) -> str:
    """The whole HTML page."""
    title = "Comparison" if report.comparison else "Report"
    only = report.runs[0] if len(report.runs) == 1 else None
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"rollouthub {report.hub_version}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{phrases.heading(only) if only else f'{title} of {len(report.runs)} runs'} · rollouthub"),
        tag("style", Markup(STYLE)),
    )
    body = _one(only) if only else _several(report)
    foot = tag("footer", tag("p", f"Made by rollouthub {report.hub_version} at {moment(report.made_at)}. {_READING}"))
    return f"<!doctype html>\n{tag('html', head, tag('body', tag('main', body, foot)), lang='en')}\n"


_READING = (
    "Intervals are 95 %, over tasks. Means are over what was scored, and unscored is never zero; "
    "the strict mean counts agent failures, and nothing else, as 0."
)


def _one(run: RunReport) -> Markup:
    head = tag(
        "header",
        tag("div", "Report of a run", class_="eyebrow"),
        tag("h1", phrases.heading(run)),
        _about(run),
        tag("p", phrases.sentence(run), class_="lead"),
        _notices(run),
    )
    return join(head, _tiles(run), details(run))


def _several(report: Report) -> Markup:
    runs, compared = report.runs, report.comparison
    title = f"{len(runs)} runs, side by side"
    head = tag("header", tag("div", "Comparison" if compared else "Report", class_="eyebrow"), tag("h1", title))
    parts = [head, *([comparison_sections(compared)] if compared else []), _side_by_side(runs)]
    for place, run in enumerate(runs):
        inner = (tag("h2", run.name), tag("p", phrases.heading(run)), _about(run), _notices(run), _tiles(run))
        parts.append(tag("section", *inner, details(run, f"run{place}-"), class_="run", id=f"run{place}"))
    return join(parts)


def details(run: RunReport, anchor: str = "") -> Markup:
    """Every section of a run below its headline figures; `anchor` begins the names of its anchors."""
    if not run.figures.played:
        return join(_card("What makes the numbers", provenance(run)), reproducing(run), settings(run))
    return join(
        _card("What made these numbers", provenance(run)),
        k_charts([run]),
        distribution_chart(run),
        trainer(run),
        outcomes(run),
        _environments(run),
        stages(run),
        usage(run),
        groups(run),
        notes(run, anchor),
        transcripts(run, anchor),
        faults(run),
        reproducing(run),
        settings(run),
    )


def _card(title: str, *children: "str | Sequence[str] | None") -> Markup:
    return tag("section", tag("h2", title), *children)


def _about(run: RunReport) -> Markup:
    chip = tag("span", standing(run.status).word, class_=f"chip {_STATUS[run.status]}")
    when = moment(run.created_at)
    return tag("p", f"{run.name} · {run.run_id} · {when} · played by hub {run.hub_version} ", chip, class_="soft")


def _notices(run: RunReport) -> list[Markup]:
    return [tag("p", notice, class_="notice warn") for notice in run.notices]


def _tiles(run: RunReport) -> Markup:
    found = run.figures
    last = next(
        (at for at in reversed(run.at_k) if at.pass_at_k and is_headline(at.k, at.pass_at_k.tasks, found.tasks)), None
    )
    tiles = [
        ("mean reward", number(found.mean_reward.value), phrases.interval(found.mean_reward) or "no interval"),
        (
            "mean reward, strict",
            number(found.mean_reward_strict.value),
            phrases.interval(found.mean_reward_strict) or "agent failures at 0",
        ),
    ]
    if found.pass_rate is not None:
        tiles.append(
            (
                "pass rate",
                share(found.pass_rate.value),
                phrases.interval(found.pass_rate, is_share=True) or "no interval",
            )
        )
    if last is not None and last.pass_at_k is not None:
        interval = phrases.interval(last.pass_at_k, is_share=True)
        over = "" if last.pass_at_k.tasks == found.tasks else f"{of_all(last.pass_at_k.tasks, found.tasks)} tasks"
        below = ", ".join(part for part in (interval, over) if part)
        tiles.append((f"pass@{last.k}", share(last.pass_at_k.value), below or "no interval"))
    tiles.append(("coverage", share(found.coverage), f"{found.scored:,} of {found.planned:,} scored"))
    return tag(
        "div",
        [
            tag("div", tag("span", title), tag("b", value), tag("span", below), class_="tile")
            for title, value, below in tiles
        ],
        class_="tiles",
    )


def _environments(run: RunReport) -> Markup | None:
    if len(run.environments) < 2:
        return None
    rows = [_figures_row(found) for found in (*run.environments, run.figures)]
    titles = ["environment", "tasks", "scored", "mean reward", "strict", "pass rate", "all alike"]
    note = tag("p", "All alike: tasks whose samples all have one reward.", class_="soft small")
    return _card("Per environment", table(titles, rows), note)


def _figures_row(found: ReportFigures) -> list[str]:
    return [
        found.name,
        f"{found.tasks:,}",
        f"{found.scored:,}/{found.planned:,}",
        figure(found.mean_reward),
        figure(found.mean_reward_strict),
        figure(found.pass_rate, is_share=True),
        f"{found.constant_groups:,}",
    ]


def _side_by_side(runs: Sequence[RunReport]) -> Markup:
    rows: list[list[str]] = []
    for place, run in enumerate(runs):
        link = tag("a", run.name, href=f"#run{place}")
        rows.append(
            [
                link,
                ", ".join(run.identity.models) or amounts.NONE,
                standing(run.status).word,
                *_figures_row(run.figures)[1:6],
            ]
        )
    titles = ["run", "model", "status", "tasks", "scored", "mean reward", "strict", "pass rate"]
    same = {run.identity.tasks_digest for run in runs}
    note = (
        "All runs played exactly the same tasks."
        if len(same) == 1 and None not in same
        else "These runs did not play the same tasks: their means answer different questions."
    )
    mark = "soft small" if len(same) == 1 else "notice warn"
    alike = _card("Side by side", tag("p", note, class_=mark), table(titles, rows, words=2))
    strips = [join(tag("h3", run.name), outcome_strip(run)) for run in runs]
    return join(alike, k_charts(runs), _card("How rollouts ended", *strips))
