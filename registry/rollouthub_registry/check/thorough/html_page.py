"""The report as one HTML page: without scripts or external resources, everything escaped."""

from collections.abc import Iterator

from rollouthub.views.markup import Markup, join, tag
from rollouthub_registry.check.defect_class import LEAKS
from rollouthub_registry.check.thorough.attack import AttackResult, State
from rollouthub_registry.check.thorough.attack_report import Report, state_of
from rollouthub_registry.check.thorough.raw_exchange import RawExchange

_WORDS: dict[State, str] = {"held": "held", "broke": "broke", "not_tried": "not tried"}
_MOST_LEFT_OUT = 40
_STYLE = """
:root { color-scheme: light dark; --line: #d5d9e0; --soft: #5b6472; --card: #fff; --ground: #f5f6f8; --ink: #1b1f27;
  --held: #14713d; --held-soft: #e2f3e8; --broke: #b3261e; --broke-soft: #fbe4e2;
  --idle: #6a5a14; --idle-soft: #f6efd6; }
@media (prefers-color-scheme: dark) { :root { --line: #363c47; --soft: #a2abb9; --card: #1d2128; --ground: #14171c;
  --ink: #e6e9ee; --held: #7fd6a2; --held-soft: #16331f; --broke: #ff9d94; --broke-soft: #43191a; --idle: #e0cd7e;
  --idle-soft: #37300f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .75rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
.verdict { border-radius: 10px; padding: 1rem 1.25rem; margin: 1.25rem 0; font-size: 1.05rem;
  border: 1px solid var(--line); }
.verdict b { display: block; font-size: 1.25rem; }
.verdict.held { background: var(--held-soft); } .verdict.broke { background: var(--broke-soft); }
.verdict.not_tried { background: var(--idle-soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
table { width: 100%; border-collapse: collapse; background: var(--card); border: 1px solid var(--line); }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; font-size: .85rem; } tr:last-child td { border-bottom: 0; }
.mark { display: inline-block; min-width: 5.2rem; text-align: center; border-radius: 999px; padding: .05rem .6rem;
  font-size: .82rem; font-weight: 600; white-space: nowrap; }
.mark.held { color: var(--held); background: var(--held-soft); }
.mark.broke { color: var(--broke); background: var(--broke-soft); }
.mark.not_tried { color: var(--idle); background: var(--idle-soft); }
details { background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; }
summary { cursor: pointer; padding: .55rem .8rem; display: flex; gap: .8rem; align-items: baseline; flex-wrap: wrap; }
summary code { font-weight: 600; } summary .title { flex: 1 1 18rem; }
.inside { padding: .2rem 1rem 1rem; border-top: 1px solid var(--line); }
.problem { border-left: 3px solid var(--broke); padding-left: .8rem; margin: .8rem 0; }
.exchange { display: grid; grid-template-columns: 1fr 1fr; gap: .6rem; margin: .5rem 0; }
@media (max-width: 48rem) { .exchange { grid-template-columns: 1fr; } }
.exchange > div { min-width: 0; }
.exchange h4 { margin: 0 0 .2rem; font-size: .8rem; color: var(--soft); font-weight: 600; }
pre { margin: 0; padding: .55rem .7rem; background: var(--ground); border: 1px solid var(--line); border-radius: 6px;
  font: 12px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  max-height: 18rem; overflow: auto; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
"""


def page(report: Report) -> str:
    """The whole HTML page."""
    title = f"Attacks on {report.info.name if report.info else report.target}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(_STYLE)),
    )
    body = tag("body", tag("main", tag("h1", title), _parts(report)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


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
