"""The report as one HTML page: no script, nothing loaded, everything escaped."""

from collections.abc import Iterator
from html import escape

from rollouthub_registry.check.thorough.attack import LEAKS, State, Verdict
from rollouthub_registry.check.thorough.attack_report import Report, state_of
from rollouthub_registry.check.thorough.raw_exchange import Exchange

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
    """The whole page."""
    title = f"Attacks on {report.info.name if report.info else report.target}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>{''.join(_parts(report))}</main></body></html>\n"
    )


def _parts(report: Report) -> Iterator[str]:
    yield '<p class="soft">Made by <code>hub check --thorough</code>: tried over the wire, as agents could.</p>'
    yield _verdict(report)
    yield _facts(report)
    yield from _leaks(report)
    yield from _checks(report)
    yield "<h2>What was tried</h2>"
    for verdict in sorted(report.verdicts, key=lambda verdict: verdict.state != "broke"):
        yield _attack(report, verdict)
    yield from _left_out(report)


def _verdict(report: Report) -> str:
    if report.is_broken:
        state, words = "broke", "Not to be published: something broke"
    elif report.is_passed:
        state, words = "held", "Everything that could be tried held"
    else:
        state, words = "not_tried", "Not decided: the attacks were not gone through"
    more = f"<p>{escape(report.redact(report.error))}</p>" if report.error else ""
    return f'<div class="verdict {state}"><b>{words}</b>{escape(report.summary)}{more}</div>'


def _facts(report: Report) -> str:
    facts = {"asked for": report.target, "attacked": report.at.strftime("%Y-%m-%d %H:%M:%S UTC")}
    if report.info is not None:
        info = report.info
        facts |= {"environment": f"{info.name} {info.version}", "digest": info.digest, "tools": info.tools_digest}
        facts |= {"split": report.split, "isolation": info.isolation}
    facts["time"] = f"{report.seconds:.1f} s, {sum(verdict.requests for verdict in report.verdicts):,} requests"
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()) + "</dl>"


def _leaks(report: Report) -> Iterator[str]:
    heads = "".join(f"<th>{head}</th>" for head in ("class", "what would leak", "attacks", ""))
    yield f"<h2>By leak</h2><table><thead><tr>{heads}</tr></thead><tbody>"
    for leak, meaning, verdicts in report.by_leak():
        counts = ", ".join(
            f"{sum(verdict.state == state for verdict in verdicts)} {word}"
            for state, word in _WORDS.items()
            if any(verdict.state == state for verdict in verdicts)
        )
        name = leak if leak.startswith("L") else "–"
        yield f"<tr><td><b>{name}</b></td><td>{escape(meaning)}</td><td>{counts or 'none'}</td>"
        yield f"<td>{_mark(state_of(verdicts))}</td></tr>"
    yield "</tbody></table>"


def _checks(report: Report) -> Iterator[str]:
    if report.no_findings is not None:
        yield f"<h2>Quick checks</h2><p>Not made: {escape(report.no_findings)}.</p>"
    if not report.findings:
        return
    states: dict[str, State] = {"passed": "held", "failed": "broke", "not_applicable": "not_tried"}
    words = {"passed": "passed", "failed": "failed", "not_applicable": "n/a"}
    yield "<h2>Quick checks</h2><table><tbody>"
    for finding in report.findings:
        details = "".join(f"<li>{escape(report.redact(detail))}</li>" for detail in finding.details)
        said = escape(report.redact(finding.says)) + (f"<ul>{details}</ul>" if details else "")
        fix = f"<p>→ {escape(finding.fix)}</p>" if finding.fix else ""
        mark = _mark(states[finding.state], words[finding.state])
        yield f"<tr><td><code>{escape(finding.check)}</code></td><td>{escape(finding.title)}</td>"
        yield f"<td>{said}{fix}</td><td>{mark}</td></tr>"
    yield "</tbody></table>"


def _attack(report: Report, verdict: Verdict) -> str:
    is_open = " open" if verdict.state == "broke" else ""
    hide = report.redact
    inside = f"<p>{escape(hide(verdict.says))}</p>"
    inside += (
        f'<p class="soft">{escape(LEAKS[verdict.leak])} · {verdict.requests:,} requests · {verdict.seconds:.1f} s</p>'
    )
    for problem in verdict.problems:
        shown = "" if problem.exchange is None else _exchange(report, problem.exchange)
        inside += f'<div class="problem"><p><b>{escape(hide(problem.says))}</b></p>{shown}</div>'
    if verdict.left_out:
        inside += "<p>Could not be tried:</p>" + _list(report, verdict.left_out)
    if verdict.samples and verdict.state != "broke":
        inside += "<p>For instance:</p>" + "".join(_exchange(report, sample) for sample in verdict.samples)
    leak = verdict.leak if verdict.leak.startswith("L") else ""
    return (
        f"<details{is_open}><summary>{_mark(verdict.state)}<code>{escape(verdict.attack)}</code>"
        f'<span class="title">{escape(verdict.title)}</span><span class="soft">{leak}</span></summary>'
        f'<div class="inside">{inside}</div></details>'
    )


def _exchange(report: Report, exchange: Exchange) -> str:
    sent, answer = escape(report.redact(exchange.sent)), escape(report.redact(exchange.answer))
    where = escape(report.redact(exchange.where))
    return (
        f'<p class="soft">{where}</p><div class="exchange"><div><h4>sent</h4><pre>{sent}</pre></div>'
        f"<div><h4>came back</h4><pre>{answer}</pre></div></div>"
    )


def _left_out(report: Report) -> Iterator[str]:
    whole = [f"{verdict.attack}: {verdict.says}" for verdict in report.verdicts if verdict.state == "not_tried"]
    parts = [f"{verdict.attack}, in part: {line}" for verdict in report.verdicts for line in verdict.left_out]
    if whole or parts:
        yield "<h2>What could not be tried</h2>" + _list(report, [*whole, *parts])


def _list(report: Report, lines: list[str] | tuple[str, ...]) -> str:
    shown = "".join(f"<li>{escape(report.redact(line))}</li>" for line in lines[:_MOST_LEFT_OUT])
    more = f"<li>… and {len(lines) - _MOST_LEFT_OUT} more</li>" if len(lines) > _MOST_LEFT_OUT else ""
    return f"<ul>{shown}{more}</ul>"


def _mark(state: State, words: str | None = None) -> str:
    return f'<span class="mark {state}">{words or _WORDS[state]}</span>'
