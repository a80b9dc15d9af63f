"""The style sheet of the pages: system fonts, light or dark as the system is, one column on a phone."""

from rollouthub.views.cards.card_style import STYLE as CARD_STYLE

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1756b8"/>'
    '<path d="M9 8v16M9 16h14M23 8v16" stroke="#fff" stroke-width="3.4" stroke-linecap="round" fill="none"/></svg>'
)
_PAGE = """
:root { color-scheme: light dark; --ink: #1c2230; --soft: #5b6475; --line: #dfe3ea; --page: #f7f8fa; --card: #fff;
  --link: #1756b8; --good: #14713d; --good-page: #e3f4ea; --bad: #a12b22; --bad-page: #fbe7e5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ef; --soft: #9aa4b5; --line: #2c3442; --page: #12161d; --card: #1a202a;
    --link: #7fb0ff; --good: #6fd39a; --good-page: #15301f; --bad: #ff9d94; --bad-page: #3a1c1a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
header, main, footer { max-width: 60rem; margin: 0 auto; padding: 0 1rem; }
main { overflow-wrap: anywhere; }
header { padding-top: 1rem; padding-bottom: .8rem; border-bottom: 1px solid var(--line); }
header a { font-weight: 650; font-size: 1.15rem; color: var(--ink); text-decoration: none; }
footer { color: var(--soft); font-size: .85rem; padding-bottom: 2rem; }
a { color: var(--link); } h1 { font-size: 1.5rem; margin: 1.2rem 0 .3rem; }
h2 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
form { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1rem 0; align-items: center; }
input[type=search] { flex: 1 1 14rem; min-width: 0; }
input[type=search], select, button { font: inherit; padding: .45rem .7rem; border: 1px solid var(--line);
  border-radius: .45rem; background: var(--card); color: var(--ink); }
button { cursor: pointer; } label { color: var(--soft); }
.soft { color: var(--soft); } .cards-list { list-style: none; padding: 0; margin: 0; }
.cards-list li { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: .8rem 1rem; margin: .6rem 0; }
.cards-list p { margin: .25rem 0; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; }
.name { font-weight: 600; font-size: 1rem; } p, h1 { overflow: clip; }
.row > * { min-width: 0; }
.row { display: flex; flex-wrap: wrap; gap: .2rem .8rem; font-size: .88rem; color: var(--soft); align-items: baseline; }
.mark { white-space: nowrap; border-radius: .35rem; padding: .05rem .45rem; font-size: .82rem; }
.good { color: var(--good); background: var(--good-page); } .bad { color: var(--bad); background: var(--bad-page); }
.tag { border: 1px solid var(--line); border-radius: 1rem; padding: 0 .55rem; font-size: .82rem; color: var(--soft);
  text-decoration: none; } .tag:hover, .cards-list li:hover { border-color: var(--link); }
.notice { color: var(--bad); background: var(--bad-page); border-radius: .45rem; padding: .6rem 1rem; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .45rem;
  padding: .7rem 1rem; white-space: pre-wrap; }
code, pre { font: .9rem/1.5 ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; }
details { margin: .3rem 0; } summary { cursor: pointer; padding: .2rem 0; } .said { white-space: pre-wrap; }
.beside { display: grid; grid-template-columns: 12rem minmax(0, 1fr); gap: 0 2rem; align-items: start; }
.beside > :only-child { grid-column: 1 / -1; }
aside ul { list-style: none; padding: 0; margin: 0; font-size: .92rem; }
aside h2 { margin: 1rem 0 .2rem; font-size: .9rem; }
aside a[aria-current] { font-weight: 700; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; overflow-wrap: normal; padding-left: .8rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.2rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; min-width: 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
td:first-child { min-width: 5.5rem; }
th { color: var(--soft); font-weight: 500; } th, td.number { overflow-wrap: normal; white-space: nowrap; }
td.number { font-variant-numeric: tabular-nums; }
nav { display: flex; gap: 1rem; margin: 1rem 0; }
@media (max-width: 44rem) { .beside { grid-template-columns: 1fr; } aside { display: flex; flex-wrap: wrap;
  gap: 0 1.6rem; } aside h2 { margin: .4rem 0 0; } }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
"""
STYLE = _PAGE + CARD_STYLE
