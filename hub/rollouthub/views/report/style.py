"""The style sheet of reports: system fonts, light or dark as the system is, fit for phones and for printing."""

from rollouthub.views.cards.card_style import STYLE as CARD_STYLE

_COLOURS = """
:root { color-scheme: light dark; --ink: #182033; --soft: #5a6478; --line: #e1e5ee; --page: #f5f7fb; --card: #fff;
  --code: #f1f4f9; --accent: #2f5fd0; --good: #17703f; --good-page: #e2f4e9; --bad: #b3352b; --bad-page: #fbe9e7;
  --warn: #8a5a00; --warn-page: #fdf1d8;
  --c0: #2f5fd0; --c1: #d9730d; --c2: #1c8f6a; --c3: #a63fa8; --c4: #b3352b; --c5: #5d6b86;
  --c6: #0b8fb3; --c7: #8a7000;
  --agent: #d9730d; --infra: #8a94a8; --verifier: #a63fa8; --cancelled: #c2a93a; --missing: #d5dae4; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6eaf3; --soft: #9aa5ba; --line: #2b3446;
  --page: #10141d;
  --card: #181e2a; --code: #121824; --accent: #8ab0ff; --good: #72d6a0; --good-page: #14301f; --bad: #ff9c92;
  --bad-page: #3a1d1b; --warn: #f2c66d; --warn-page: #342812;
  --c0: #7ea6ff; --c1: #ff9f4d; --c2: #4fd0a3; --c3: #df8be0; --c4: #ff8a80; --c5: #a3b0c9;
  --c6: #56cdec; --c7: #d8bf4a;
  --agent: #ff9f4d; --infra: #7c879d; --verifier: #df8be0; --cancelled: #d8bf4a; --missing: #39435a; } }
"""

_PAGE = """
a { color: var(--accent); }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.55 system-ui, -apple-system, 'Segoe UI',
  Roboto, 'DejaVu Sans', sans-serif; overflow-wrap: anywhere; }
main { max-width: 68rem; margin: 0 auto; padding: 1.6rem 1.2rem 3rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: .2rem 0 .5rem; letter-spacing: -.015em; font-weight: 680; }
h2 { font-size: 1.12rem; margin: 0 0 .8rem; letter-spacing: -.005em; }
h3 { font-size: .95rem; margin: 1.1rem 0 .5rem; } h1, h2, h3, p, pre, dd { overflow: clip; }
p { margin: .4rem 0; max-width: 62rem; } .soft { color: var(--soft); } .small { font-size: .87rem; }
.eyebrow { text-transform: uppercase; letter-spacing: .09em; font-size: .74rem; font-weight: 650; color: var(--soft); }
.lead { font-size: 1.03rem; } .run { margin-top: 2.6rem; } .run > h2 { font-size: 1.35rem; margin-bottom: .2rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: 1.1rem 1.25rem;
  margin: 1rem 0; } section.run { background: none; border: 0; padding: 0; margin-top: 2.6rem; }
.chip { border-radius: 1rem; padding: .1rem .6rem; font-size: .8rem; font-weight: 600; white-space: nowrap; }
.good { color: var(--good); background: var(--good-page); } .bad { color: var(--bad); background: var(--bad-page); }
.warn { color: var(--warn); background: var(--warn-page); }
.notice { border-radius: .6rem; padding: .6rem 1rem; margin: .6rem 0; max-width: none; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .8rem; margin: 1.2rem 0 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.65rem; font-weight: 680; line-height: 1.25; font-variant-numeric: tabular-nums;
  letter-spacing: -.02em; } .tile span { display: block; color: var(--soft); font-size: .82rem; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem 2rem; }
.two > * { min-width: 0; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .35rem 1.4rem; margin: 0; }
dt { color: var(--soft); } dt.sub { padding-left: .9rem; } dd { margin: 0; min-width: 0; } dd + dd { grid-column: 2; }
code, pre { font: .86rem/1.55 ui-monospace, SFMono-Regular, 'DejaVu Sans Mono', Menlo, Consolas, monospace; }
.noted { white-space: pre-wrap; min-width: 20rem; }
pre { white-space: pre-wrap; background: var(--code); border-radius: .5rem; padding: .6rem .8rem; margin: .3rem 0;
  max-height: 32rem; overflow: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .38rem .9rem .38rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; } tbody tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 550; font-size: .82rem; }
.n { text-align: right; white-space: nowrap; overflow-wrap: normal; font-variant-numeric: tabular-nums; }
td:first-child:not(.n) { min-width: 6rem; } th { white-space: nowrap; overflow-wrap: normal; }
summary { cursor: pointer; color: var(--accent); padding: .25rem 0; } summary > * { color: var(--ink); }
details.task { border-top: 1px solid var(--line); } details.task > summary { padding: .55rem 0; }
footer { color: var(--soft); font-size: .85rem; padding-top: 1rem; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .84rem; margin: .5rem 0 .8rem; padding: 0;
  list-style: none; } .key i { display: inline-block; width: .7rem; height: .7rem; border-radius: .2rem;
  margin-right: .4rem; }
img { max-width: 100%; max-height: 24rem; border-radius: .4rem; }
"""

CHARTS = """
svg.chart { display: block; width: 100%; max-width: 34rem; height: auto; } svg.strip { display: block; width: 100%;
  height: 1.25rem; border-radius: .35rem; }
svg text { font-size: 12px; fill: var(--soft); font-family: system-ui, 'DejaVu Sans', sans-serif; }
.axis { stroke: var(--soft); stroke-width: 1; fill: none; } .grid { stroke: var(--line); stroke-width: 1; }
.line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.whisker { fill: none; stroke-width: 1.6; opacity: .65; }
.dot { stroke: var(--card); stroke-width: 1.5; } .bar { fill: var(--c0); }
.span { stroke-width: 3.5; stroke-linecap: round; }
.span.better { stroke: var(--good); } .span.worse { stroke: var(--bad); } .span.unclear { stroke: var(--infra); }
.mark.better { fill: var(--good); } .mark.worse { fill: var(--bad); } .mark.unclear { fill: var(--infra); }
svg.forest { display: block; width: 100%; } svg.forest text { paint-order: stroke; stroke: var(--card);
  stroke-width: 5px; stroke-linejoin: round; } svg.forest .name { fill: var(--ink); font-size: 13px; }
.zero { stroke: var(--soft); stroke-width: 1.5; } svg.pair { display: block; width: 9rem; height: 18px; }
.pair .before { fill: var(--card); stroke: var(--soft); stroke-width: 2; }
.pair .span, .pair .mark { stroke-width: 3; } .pair .track { stroke: var(--line); stroke-width: 2; }
.cell { display: block; } .cell.good, .cell.bad { background: none; font-weight: 600; }
.scored { fill: var(--c0); background: var(--c0); } .passed { fill: var(--c2); background: var(--c2); }
.not_passed { fill: #e0a33c; background: #e0a33c; } .agent_failure { fill: var(--agent); background: var(--agent); }
.infrastructure_fault { fill: var(--infra); background: var(--infra); }
.verifier_fault { fill: var(--verifier); background: var(--verifier); }
.cancelled { fill: var(--cancelled); background: var(--cancelled); } .missing { fill: var(--missing);
  background: var(--missing); }
""" + "".join(
    f".line.c{i}, .whisker.c{i} {{ stroke: var(--c{i}); }} .dot.c{i} {{ fill: var(--c{i}); }} "
    f"i.c{i} {{ background: var(--c{i}); }}\n"
    for i in range(8)
)

_SMALL_AND_PAPER = """
@media screen and (max-width: 48rem) { .n, th { white-space: normal; } td.n, th.n { overflow-wrap: normal; }
  th, td { padding-right: .55rem; } td:first-child:not(.n) { min-width: 4.5rem; }
  table:has(th:nth-child(6)) { font-size: .74rem; } table:has(th:nth-child(6)) :is(th, td) { padding-right: .28rem; }
  table:has(th:nth-child(6)) th { font-size: .68rem; }
  table:has(th:nth-child(6)) td:first-child:not(.n) { min-width: 3rem; } }
@media screen and (max-width: 34rem) { main { padding: 1rem .7rem 2rem; }
  section { padding: .9rem .85rem; border-radius: .6rem; }
  h1 { font-size: 1.35rem; } dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .45rem; }
  dd + dd { grid-column: 1; } .tiles { grid-template-columns: 1fr 1fr; gap: .5rem; } .tile { padding: .6rem .7rem; }
  .tile b { font-size: 1.3rem; } svg text { font-size: 14px; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #ccc; --page: #fff; --card: #fff;
  --code: #f6f6f6; --accent: #000; } body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  section { break-inside: auto; border-color: #ccc; } .tile, svg, tr, figure { break-inside: avoid; }
  h2, h3 { break-after: avoid; } pre { max-height: none; overflow: visible; } .wide { overflow: visible; }
  .n, th { white-space: normal; }
  details.told::details-content { content-visibility: visible; height: auto; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
"""

STYLE = _COLOURS + _PAGE + CHARTS + _SMALL_AND_PAPER + CARD_STYLE
