"""The frame and the style of the HTML reports of `hub check --thorough` and `hub audit`."""

from collections.abc import Iterable

from rollouthub.views.markup import Markup, tag

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
.problem.remark { border-color: var(--idle); }
.exchange { display: grid; grid-template-columns: 1fr 1fr; gap: .6rem; margin: .5rem 0; }
@media (max-width: 48rem) { .exchange { grid-template-columns: 1fr; } }
.exchange > div { min-width: 0; }
.exchange h4 { margin: 0 0 .2rem; font-size: .8rem; color: var(--soft); font-weight: 600; }
pre { margin: 0; padding: .55rem .7rem; background: var(--ground); border: 1px solid var(--line); border-radius: 6px;
  font: 12px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  max-height: 18rem; overflow: auto; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
.wide { overflow-x: auto; margin: .5rem 0; } .n { text-align: right; font-variant-numeric: tabular-nums; }
a { color: inherit; }
@media (max-width: 48rem) { .wide td:nth-child(2):not(.n) { min-width: 12rem; } th, td { padding: .4rem .5rem; } }
"""


def html_document(title: str, *body: str | Iterable[str]) -> str:
    """A whole page that has no scripts and loads nothing; what is not `Markup` in its body is escaped."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(_STYLE)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', tag('main', *body)), lang='en')}\n"
