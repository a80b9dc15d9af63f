"""The tables of a report, each as a section of HTML."""

from rollouthub.rollout import Outcome
from rollouthub.statistics import amounts
from rollouthub.statistics.amounts import count, dollars, moment, number, seconds, share, size
from rollouthub.views.markup import Markup, join, table, tag
from rollouthub.views.report import phrases
from rollouthub.views.report.charts import outcome_strip
from rollouthub.views.report.report_facts import RunReport

OPEN_GROUPS = 12
"""Number of tasks shown before the reader unfolds the rest."""


def outcomes(run: RunReport) -> Markup:
    """How rollouts ended, by outcome and kind, and why agents stopped."""
    played = run.figures.played or 1
    ended = [
        [name.replace("_", " "), phrases.KINDS[Outcome(name).kind], f"{number:,}", share(number / played)]
        for name, number in run.outcomes.items()
    ]
    missing = max(0, run.figures.planned - run.figures.played)
    if missing:
        ended.append(["–", phrases.KINDS["missing"], f"{missing:,}", ""])
    stopped = [[name.replace("_", " "), f"{number:,}", share(number / played)] for name, number in run.stops.items()]
    two = tag(
        "div",
        tag("div", table(["outcome", "kind", "rollouts", "share"], ended, words=2)),
        tag("div", table(["why the agent stopped", "rollouts", "share"], stopped)),
        class_="two",
    )
    retried = run.attempts - run.figures.played
    words = (
        f"{count(retried, 'attempt')} broke and was tried again."
        if retried == 1
        else (f"{count(retried, 'attempt')} broke and were tried again." if retried else "")
    )
    note = tag("p", words, class_="soft small") if words else None
    return tag("section", tag("h2", "How rollouts ended"), outcome_strip(run), two, note)


def stages(run: RunReport) -> Markup | None:
    """The section on the time of each stage and the size of a rollout; None where no stage took any time."""
    found = {name: each for name, each in run.stages.items() if each.p99 > 0}
    if not found:
        return None
    rows = [
        [f"… {name}" if name in ("model", "tool") else name, seconds(each.p50), seconds(each.p95), seconds(each.p99)]
        for name, each in found.items()
    ]
    sizes = [[name, size(each.p50), size(each.p95), size(each.p99)] for name, each in run.sizes.items()]
    two = tag(
        "div",
        tag("div", table(["stage", "p50", "p95", "p99"], rows)),
        tag("div", table(["of a rollout", "p50", "p95", "p99"], sizes)),
        class_="two",
    )
    return tag("section", tag("h2", "Time and size"), two)


def usage(run: RunReport) -> Markup:
    """Tokens and US dollars by model, over all attempts."""
    rows = [
        [
            each.role or "the agent's model",
            f"{each.calls:,}",
            f"{each.prompt_tokens:,}",
            f"{each.output_tokens:,}",
            dollars(each.cost),
            dollars(each.cost / run.figures.played if each.cost is not None and run.figures.played else None),
        ]
        for each in run.usage
    ]
    titles = ["asked by", "calls", "prompt tokens", "output tokens", "cost", "a rollout"]
    note = None if any(each.cost is not None for each in run.usage) else "No call has a known price."
    said = tag("p", note, class_="soft small") if note else None
    return tag("section", tag("h2", "Tokens and cost"), table(titles, rows), said)


def groups(run: RunReport) -> Markup | None:
    """The tasks with the lowest mean reward and those with the largest deviation; None if there are none."""
    if not run.groups:
        return None
    several = len(run.environments) > 1
    rows = [
        [
            *([each.environment] if several else []),
            each.task,
            f"{each.scored:,}/{each.samples:,}",
            amounts.NONE if each.passed is None else f"{each.passed:,}",
            number(each.mean_reward),
            number(each.deviation),
        ]
        for each in run.groups
    ]
    titles = [*(["environment"] if several else []), "task", "scored", "passed", "mean reward", "std of rewards"]
    parts = [table(titles, rows[:OPEN_GROUPS], words=2 if several else 1)]
    if len(rows) > OPEN_GROUPS:
        more = table(titles, rows[OPEN_GROUPS:], words=2 if several else 1)
        parts.append(tag("details", tag("summary", f"{len(rows) - OPEN_GROUPS:,} more"), more, class_="told"))
    words = "The lowest mean first. std is the standard deviation of a task's rewards."
    if run.groups_left_out:
        words += (
            f" Here are the tasks of the lowest mean and those of the largest standard deviation; "
            f"{run.groups_left_out:,} others are not listed."
        )
    return tag("section", tag("h2", "Per task"), parts, tag("p", words, class_="soft small"))


def faults(run: RunReport) -> Markup | None:
    """Faults by kind, those of retried attempts included, with the latest message of each; None if there are none."""
    if not run.faults:
        return None
    rows = [[each.name, f"{each.attempts:,}", tag("code", each.example)] for each in run.faults]
    body = [
        tag("tr", tag("td", name), tag("td", attempts, class_="n"), tag("td", example))
        for name, attempts, example in rows
    ]
    heads = [tag("th", title, scope="col", class_="n" if title == "attempts" else None) for title in _FAULTS]
    inner = tag("table", tag("thead", tag("tr", heads)), tag("tbody", body))
    words = "Attempts, those that were tried again included."
    scrolls = tag("div", inner, class_="wide", tabindex="0", role="group", aria_label="Table")
    return tag("section", tag("h2", "Faults"), scrolls, tag("p", words, class_="soft small"))


_FAULTS = ("boundary and type", "attempts", "the latest said")


def reproducing(run: RunReport) -> Markup:
    """The commands that play the run again, and when it was resumed with which changes."""
    parts = [tag("pre", "\n".join(run.commands)) if run.commands else tag("p", phrases.NOT_AGAIN)]
    if not run.is_locked:
        words = "No lock lies beside this run: compare the digests above with those of what you play."
        parts.append(tag("p", words, class_="soft small"))
    if run.resumptions:
        items = [
            tag(
                "li",
                f"{moment(each.at)}, hub {each.hub_version}",
                tag("ul", [tag("li", line) for line in each.changes]),
            )
            for each in run.resumptions
        ]
        parts.append(join(tag("h3", f"Taken up again {count(len(items), 'time')}"), tag("ul", items)))
    return tag("section", tag("h2", "Play it again"), parts)
