"""The report as one HTML page: without scripts or external resources, everything escaped."""

from collections.abc import Iterator

from rollouthub.views.markup import Markup, join, tag
from rollouthub_registry.check.defect_class import LEAKS
from rollouthub_registry.check.html_document import html_document
from rollouthub_registry.check.thorough.attack import AttackResult, State
from rollouthub_registry.check.thorough.attack_report import Report, state_of
from rollouthub_registry.check.thorough.raw_exchange import RawExchange

_WORDS: dict[State, str] = {"held": "held", "broke": "broke", "not_tried": "not tried"}
_MOST_LEFT_OUT = 40


def page(report: Report) -> str:
    """The whole HTML page."""
    title = f"Attacks on {report.info.name if report.info else report.target}"
    return html_document(title, tag("h1", title), _parts(report))


def _parts(report: Report) -> Iterator[Markup]:
    made = tag("code", "hub check --thorough")
    yield tag("p", "Made by ", made, ": tried over the wire, as agents could.", class_="soft")
    yield _verdict(report)
    yield _facts(report)
    yield _leaks(report)
    yield _checks(report)
    yield tag("h2", "What was tried")
    for verdict in sorted(report.verdicts, key=lambda verdict: verdict.state != "broke"):
        yield _attack(report, verdict)
    yield _left_out(report)


def _verdict(report: Report) -> Markup:
    if report.is_broken:
        state, words = "broke", "Not to be published: something broke"
    elif report.is_passed:
        state, words = "held", "Everything that could be tried held"
    else:
        state, words = "not_tried", "Not decided: the attacks were not gone through"
    more = tag("p", report.redact(report.error)) if report.error else None
    return tag("div", tag("b", words), report.summary, more, class_=f"verdict {state}")


def _facts(report: Report) -> Markup:
    facts = {"asked for": report.target, "attacked": report.at.strftime("%Y-%m-%d %H:%M:%S UTC")}
    if report.info is not None:
        info = report.info
        facts |= {"environment": f"{info.name} {info.version}", "digest": info.digest, "tools": info.tools_digest}
        facts |= {"split": report.split, "isolation": info.isolation}
    facts["time"] = f"{report.seconds:.1f} s, {sum(verdict.requests for verdict in report.verdicts):,} requests"
    return tag("dl", (join(tag("dt", name), tag("dd", text)) for name, text in facts.items()))


def _leaks(report: Report) -> Markup:
    rows: list[Markup] = []
    for leak, meaning, verdicts in report.by_leak():
        counts = ", ".join(
            f"{sum(verdict.state == state for verdict in verdicts)} {word}"
            for state, word in _WORDS.items()
            if any(verdict.state == state for verdict in verdicts)
        )
        name = tag("b", leak if leak.startswith("L") else "–")
        rows.append(_row(name, meaning, counts or "none", _mark(state_of(verdicts))))
    heads = (tag("th", head) for head in ("class", "what would leak", "attacks", ""))
    return join(tag("h2", "By leak"), tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows)))


def _checks(report: Report) -> Markup:
    title = tag("h2", "Quick checks")
    not_made = None if report.no_findings is None else join(title, tag("p", f"Not made: {report.no_findings}."))
    if not report.findings:
        return join(not_made)
    states: dict[str, State] = {"passed": "held", "failed": "broke", "not_applicable": "not_tried"}
    words = {"passed": "passed", "failed": "failed", "not_applicable": "n/a"}
    rows: list[Markup] = []
    for finding in report.findings:
        details = [tag("li", report.redact(detail)) for detail in finding.details]
        fix = tag("p", f"→ {finding.fix}") if finding.fix else None
        said = join(report.redact(finding.says), tag("ul", details) if details else None, fix)
        mark = _mark(states[finding.state], words[finding.state])
        rows.append(_row(tag("code", finding.check), finding.title, said, mark))
    return join(not_made, title, tag("table", tag("tbody", rows)))


def _row(*cells: str) -> Markup:
    return tag("tr", (tag("td", cell) for cell in cells))


def _attack(report: Report, verdict: AttackResult) -> Markup:
    hide = report.redact
    told = f"{LEAKS[verdict.leak]} · {verdict.requests:,} requests · {verdict.seconds:.1f} s"
    inside = [tag("p", hide(verdict.says)), tag("p", told, class_="soft")]
    for problem in verdict.problems:
        shown = None if problem.exchange is None else _exchange(report, problem.exchange)
        inside.append(tag("div", tag("p", tag("b", hide(problem.says))), shown, class_="problem"))
    if verdict.left_out:
        inside += [tag("p", "Could not be tried:"), _list(report, verdict.left_out)]
    if verdict.samples and verdict.state != "broke":
        inside += [tag("p", "For instance:"), *(_exchange(report, sample) for sample in verdict.samples)]
    summary = tag(
        "summary",
        _mark(verdict.state),
        tag("code", verdict.attack),
        tag("span", verdict.title, class_="title"),
        tag("span", verdict.leak if verdict.leak.startswith("L") else "", class_="soft"),
    )
    return tag("details", summary, tag("div", inside, class_="inside"), open=verdict.state == "broke")


def _exchange(report: Report, exchange: RawExchange) -> Markup:
    sides = (("sent", exchange.sent), ("came back", exchange.answer))
    shown = (tag("div", tag("h4", title), tag("pre", report.redact(text))) for title, text in sides)
    return join(tag("p", report.redact(exchange.where), class_="soft"), tag("div", shown, class_="exchange"))


def _left_out(report: Report) -> Markup:
    whole = [f"{verdict.attack}: {verdict.says}" for verdict in report.verdicts if verdict.state == "not_tried"]
    parts = [f"{verdict.attack}, in part: {line}" for verdict in report.verdicts for line in verdict.left_out]
    if not whole and not parts:
        return join()
    return join(tag("h2", "What could not be tried"), _list(report, [*whole, *parts]))


def _list(report: Report, lines: list[str] | tuple[str, ...]) -> Markup:
    left_out = len(lines) - _MOST_LEFT_OUT
    more = tag("li", f"… and {left_out} more") if left_out > 0 else None
    return tag("ul", (tag("li", report.redact(line)) for line in lines[:_MOST_LEFT_OUT]), more)


def _mark(state: State, words: str | None = None) -> Markup:
    return tag("span", words or _WORDS[state], class_=f"mark {state}")
