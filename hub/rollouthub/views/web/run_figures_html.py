"""The figures and charts of a run that is followed, live or ended."""

from collections.abc import Sequence

from rollouthub.live.follow import RunFeed, RunProgress
from rollouthub.live.follow.run_figures import figures_of
from rollouthub.live.follow.timeline import TimelinePoint
from rollouthub.statistics import Estimate
from rollouthub.statistics.amounts import (
    clock,
    count,
    dollars,
    elapsed,
    interval,
    interval_and_tasks,
    number,
    share,
    short,
)
from rollouthub.statistics.pass_at_k import AtK, GroupSummary, is_headline
from rollouthub.views.markup import Markup, join, tag
from rollouthub.views.report import phrases
from rollouthub.views.report.charts import ending_parts
from rollouthub.views.report.report_facts import Bar
from rollouthub.views.report.svg_charts import Curve, CurvePoint, curves, histogram, shares, steps_chart


def tiles(feed: RunFeed, summary: GroupSummary | None) -> Markup:
    """The headline figures, each with its interval or what it is over."""
    found = figures_of(feed.counts, feed.info.planned)
    mean = interval(summary and summary.mean_estimate) or f"of {count(found.scored, 'scored rollout')}"
    parts = [("mean reward", number(found.mean_reward), mean)]
    if found.strict != found.mean_reward:
        parts.append(("strict mean", number(found.strict), "agent failures count as 0"))
    if found.pass_rate is not None:
        passing = interval(summary and summary.pass_estimate, share) or "no interval"
        parts.append(("pass rate", share(found.pass_rate), passing))
    last = _headline(() if summary is None else summary.at_k)
    if last is not None and last.pass_at_k is not None:
        below = interval_and_tasks(last.pass_at_k, share) or "no interval"
        parts.append((f"pass@{last.k}", share(last.pass_at_k.value), below))
    planned = "unplanned" if found.planned is None else f"{found.scored:,} of {found.planned:,} scored"
    parts.append(("coverage", share(found.coverage), planned))
    each = f"{short(round(found.output_tokens / found.attempts))} an attempt" if found.attempts else ""
    parts.append(("output tokens", short(found.output_tokens), each))
    if found.cost is not None:
        parts.append(("cost", dollars(found.cost), f"{dollars(found.cost / max(1, found.done))} a rollout"))
    if found.retried:
        parts.append(("retried", f"{found.retried:,}", "attempts that a later one replaced"))
    return tag("div", [_tile(*part) for part in parts], class_="tiles")


def _tile(title: str, value: str, below: str) -> Markup:
    return tag("div", tag("span", title), tag("b", value), tag("span", below), class_="tile")


def _headline(at_k: tuple[AtK, ...]) -> AtK | None:
    """The greatest k above 1 that nearly all tasks have samples for."""
    for at in reversed(at_k):
        found = at.pass_at_k
        if found is not None and is_headline(at.k, found.tasks, found.tasks + found.excluded):
            return at
    return None


def _endings(feed: RunFeed) -> list[tuple[str, int]]:
    counts = feed.counts
    missing = max(0, (feed.info.planned or 0) - counts.effective)
    return ending_parts(counts.kinds.items(), counts.judged, counts.passed, missing)


def endings(feed: RunFeed) -> Markup:
    """How rollouts ended, as one bar with its legend; the reasons to stop and the faults below."""
    parts = _endings(feed)
    if not parts:
        return tag("p", "Nothing has ended yet.", class_="soft")
    total = sum(number for _, number in parts)
    items = [
        tag(
            "li",
            tag("i", class_=kind),
            f"{number:,} {phrases.ENDING_WORDS[kind]} ",
            tag("span", share(number / total), class_="soft"),
        )
        for kind, number in parts
    ]
    return join(shares("How rollouts ended", parts), tag("ul", items, class_="key"), _counts(feed))


def charts(feed: RunFeed, summary: GroupSummary | None, rewards: Sequence[Bar]) -> Markup:
    """Endings, the distribution of rewards, pass@k, and the mean over time; folded below one line with the endings."""
    cards: list[tuple[str, Markup | None]] = [("How rollouts ended", endings(feed))]
    if rewards:
        cards.append(("Rewards", histogram("Rewards of scored rollouts", rewards)))
    if summary is not None and summary.scored and len(summary.at_k) > 1:
        cards.append(("With k samples of a task", _at_k(summary.at_k)))
    cards.append(("Mean reward so far", _over_time(feed.timeline.points)))
    parts = _endings(feed)
    told = ", ".join(f"{number:,} {phrases.ENDING_WORDS[kind]}" for kind, number in parts)
    bar = shares("How rollouts ended", parts) if parts else None
    made = tag(
        "div",
        [tag("section", tag("h2", title), inner) for title, inner in cards if inner],
        class_="charts",
        tabindex="0",
        role="group",
        aria_label="Charts",
    )
    return tag("details", tag("summary", "Charts", bar, tag("span", told, class_="soft")), made, class_="fold")


def _at_k(at_k: tuple[AtK, ...]) -> Markup:
    passing = _points([(at.k, at.pass_at_k) for at in at_k])
    lines = [Curve("pass@k", passing)] if passing else []
    lines.append(Curve("avg@k", _points([(at.k, at.avg_at_k) for at in at_k])))
    key = [tag("li", tag("i", class_=f"c{place}"), line.name) for place, line in enumerate(lines)]
    least = min((at.avg_at_k.tasks for at in at_k), default=0)
    every = at_k[0].avg_at_k.tasks + at_k[0].avg_at_k.excluded
    note = f"At the largest k {least:,} of {every:,} tasks have samples enough." if least < every else None
    return join(
        curves("pass@k and avg@k", lines),
        tag("ul", key, class_="key"),
        tag("p", note, class_="soft small") if note else None,
    )


def _points(found: list[tuple[int, Estimate | None]]) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(k, each.value, each.low, each.high) for k, each in found if each and each.value is not None)


def _over_time(points: list[TimelinePoint]) -> Markup | None:
    """The running mean by completed rollouts, so that a short run has a curve, too."""
    curve: list[tuple[int, float]] = []
    scored, total = 0, 0.0
    for point in points:
        scored, total = scored + point.scored, total + point.reward_sum
        if point.scored:
            curve.append((scored, total / scored))
    if len(curve) < 3:
        return None
    return join(
        steps_chart("Mean reward by scored rollouts", curve),
        tag("p", "Over the rollouts scored so far, in the order in which they ended.", class_="soft small"),
    )


def _counts(feed: RunFeed) -> Markup | None:
    faults = list(feed.counts.faults.items())[:6]
    stops = list(feed.counts.stops.items())[:8]
    lists = [
        tag(
            "div",
            tag("h3", title),
            tag("ul", [tag("li", f"{name.replace('_', ' ')} ", tag("b", f"{n:,}")) for name, n in found]),
        )
        for title, found in (("Faults", faults), ("Agents stopped", stops))
        if found
    ]
    return tag("div", lists, class_="tally") if lists else None


def progress(found: RunProgress) -> Markup:
    """How far the run is, how fast it goes, and how long it took or will take."""
    planned = "" if found.planned is None else f" of {found.planned:,}"
    words = [f"{found.done:,}{planned} rollouts"]
    if found.in_flight and found.status == "running":
        words.append(f"{found.in_flight:,} in flight")
    if found.rate is not None:
        words.append(f"{found.rate:.1f} a second" if found.rate >= 0.1 else f"{found.rate * 60:.1f} a minute")
    words.append(f"{clock(found.eta_seconds)} left" if found.eta_seconds is not None else elapsed(found.seconds))
    bar: Markup | None = None
    if found.share is not None and found.status == "running":
        label = f"{share(found.share)} of the planned rollouts"
        bar = tag("progress", label, value=f"{found.share:.4f}", max="1", aria_label=label)
    return tag("p", bar, tag("span", " · ".join(words)), class_="progress")
